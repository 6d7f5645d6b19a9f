// @vitest-environment happy-dom
import { expect, it, vi } from 'vitest'

it('keeps the token in memory when local storage is unavailable', async () => {
  vi.stubGlobal('localStorage', {
    getItem: () => {
      throw new Error('The request was denied.')
    },
    setItem: () => {
      throw new Error('The request was denied.')
    },
  })
  const auth = await import('./auth')
  expect(auth.token()).toBeNull()
  auth.signIn(' a-token ')
  expect(auth.token()).toBe('a-token')
  expect(auth.reloadToken('a-token')).toBe(false)
})
