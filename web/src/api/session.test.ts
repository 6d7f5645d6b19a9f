// @vitest-environment happy-dom
import { expect, it, vi } from 'vitest'

it('begins without a token where the browser keeps nothing, and has one for as long as the page is open', async () => {
  vi.stubGlobal('localStorage', {
    getItem: () => {
      throw new Error('The request was denied.')
    },
    setItem: () => {
      throw new Error('The request was denied.')
    },
  })
  const session = await import('./session')
  expect(session.token()).toBeNull()
  session.signIn(' a-token ')
  expect(session.token()).toBe('a-token')
  expect(session.renew('a-token')).toBe(false)
})
