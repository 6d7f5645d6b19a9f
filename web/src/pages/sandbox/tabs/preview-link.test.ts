import { describe, expect, it } from 'vitest'
import { previewLink } from './preview-link'

const ours = 'http://127.0.0.1:18000'

describe('the URL of a preview', () => {
  it('on the console origin is shown with a separate origin', () => {
    expect(previewLink('http://127.0.0.1:18000/app', ours)).toMatchObject({
      kind: 'shown',
      permissions: 'allow-scripts allow-forms allow-popups',
    })
  })

  it('on another origin keeps its origin', () => {
    expect(previewLink('https://3000-box.preview.test/', ours)).toMatchObject({
      kind: 'shown',
      permissions: 'allow-scripts allow-forms allow-popups allow-same-origin',
      local: false,
    })
  })

  it.each(['javascript:alert(1)', 'data:text/html,x', 'file:///etc/passwd', 'localhost:3000', '', 'not a URL'])(
    'is shown as text if it is %j',
    (address) => {
      expect(previewLink(address, ours)).toEqual({ kind: 'text', text: address })
    },
  )

  it.each([
    'http://localhost:3000',
    'http://127.0.0.1:80',
    'http://[::1]:5173',
    'http://app.localhost',
    'http://0.0.0.0:8080',
  ])('is local: %s', (address) => {
    expect(previewLink(address, ours)).toMatchObject({ kind: 'shown', local: true })
  })
})
