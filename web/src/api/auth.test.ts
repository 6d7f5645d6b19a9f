// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, it, vi } from 'vitest'

beforeEach(() => vi.resetModules())
afterEach(() => vi.unstubAllGlobals())

it('does not read a token from the address', async () => {
  localStorage.setItem('sunaba.token', 'mine')
  history.replaceState(null, '', '/command?token=theirs')
  const auth = await import('./auth')
  expect([auth.token(), localStorage.getItem('sunaba.token')]).toEqual(['mine', 'mine'])
  localStorage.clear()
})

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
