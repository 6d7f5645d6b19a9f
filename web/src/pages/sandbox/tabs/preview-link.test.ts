import { describe, expect, it } from 'vitest'
import { previewLink } from './preview-link'

const ours = 'http://127.0.0.1:18000'

describe('the address of a preview', () => {
  it('is shown in a frame with an origin of its own if it has ours', () => {
    expect(previewLink('http://127.0.0.1:18000/app', ours)).toMatchObject({
      kind: 'shown',
      permissions: 'allow-scripts allow-forms allow-popups',
    })
  })

  it('keeps its own origin if that is another', () => {
    expect(previewLink('https://3000-box.preview.test/', ours)).toMatchObject({
      kind: 'shown',
      permissions: 'allow-scripts allow-forms allow-popups allow-same-origin',
      local: false,
    })
  })

  it.each(['javascript:alert(1)', 'data:text/html,x', 'file:///etc/passwd', 'localhost:3000', '', 'not an address'])(
    'is text and nothing more if it is %j',
    (address) => {
      expect(previewLink(address, ours)).toEqual({ kind: 'text', text: address })
    },
  )

  it.each(['http://localhost:3000', 'http://127.0.0.1:80', 'http://[::1]:5173', 'http://app.localhost', 'http://0.0.0.0:8080'])(
    'is known to be reachable from one machine only: %s',
    (address) => {
      expect(previewLink(address, ours)).toMatchObject({ kind: 'shown', local: true })
    },
  )
})
