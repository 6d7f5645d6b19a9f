// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, it, vi } from 'vitest'

const TOKEN_KEY = 'sunaba.token'

/** Requests to the control plane, which accepts the code `fresh`. */
let requests: { path: string; address: string; body: unknown }[] = []

beforeEach(() => {
  requests = []
  localStorage.clear()
  vi.resetModules()
  vi.stubGlobal('fetch', (path: string, { body }: { body: string }) => {
    requests.push({ path, address: location.href, body: JSON.parse(body) as unknown })
    const isFresh = body === JSON.stringify({ code: 'fresh' })
    const answer = isFresh
      ? { token: 'sit_new', expires_at: '2026-11-17T10:00:00.000000Z' }
      : { code: 'unauthorized', detail: 'The sign-in code has expired or was used before.' }
    return Promise.resolve(new Response(JSON.stringify(answer), { status: isFresh ? 200 : 401 }))
  })
})
afterEach(() => vi.unstubAllGlobals())

/** Opens the console as a new page does. */
async function open(pathAndFragment: string) {
  history.replaceState(null, '', pathAndFragment)
  const auth = await import('./auth')
  const link = await import('./sign-in-link')
  link.openSignInLink()
  return { ...auth, ...link }
}

it('exchanges the code for a token, after removing it from the address', async () => {
  const { signInLink, token } = await open('/sandboxes?q=build#code=fresh')
  expect(location.href).toBe(`${location.origin}/sandboxes?q=build`)
  await vi.waitFor(() => expect(signInLink()).toEqual({ kind: 'none' }))
  const address = `${location.origin}/sandboxes?q=build`
  expect(requests).toEqual([{ path: '/api/v1/sign-in', address, body: { code: 'fresh' } }])
  expect([token(), localStorage.getItem(TOKEN_KEY)]).toEqual(['sit_new', 'sit_new'])
})

it('uses the code only after a confirmation if a token is stored', async () => {
  localStorage.setItem(TOKEN_KEY, 'mine')
  const { signInLink, exchangeCode, token } = await open('/#code=fresh')
  expect([signInLink(), requests, token()]).toEqual([{ kind: 'confirming' }, [], 'mine'])
  await exchangeCode()
  expect([token(), localStorage.getItem(TOKEN_KEY)]).toEqual(['sit_new', 'sit_new'])
})

it('keeps the stored token and the code if the confirmation is refused', async () => {
  localStorage.setItem(TOKEN_KEY, 'mine')
  const { signInLink, closeSignInLink, exchangeCode, token } = await open('/#code=fresh')
  closeSignInLink()
  await exchangeCode()
  expect([signInLink(), requests, token()]).toEqual([{ kind: 'none' }, [], 'mine'])
})

it('says how to get another link if the code was used', async () => {
  const { signInLink, token } = await open('/#code=used')
  await vi.waitFor(() => expect(signInLink().kind).toBe('failed'))
  expect(signInLink()).toEqual({
    kind: 'failed',
    message: 'The link has expired or was used before. Run `sunaba link` and open the link that it prints.',
    canRetry: false,
  })
  expect(token()).toBeNull()
})

it('can be repeated if the control plane did not respond', async () => {
  const plane = fetch
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('Failed to fetch')))
  const { signInLink, exchangeCode, token } = await open('/#code=fresh')
  await vi.waitFor(() => expect(signInLink()).toMatchObject({ kind: 'failed', canRetry: true }))
  vi.stubGlobal('fetch', plane)
  await exchangeCode()
  expect([signInLink(), token()]).toEqual([{ kind: 'none' }, 'sit_new'])
})

it.each([null, 'mine'])('does not sign in with a token in the address (stored: %s)', async (stored) => {
  if (stored !== null) localStorage.setItem(TOKEN_KEY, stored)
  const { signInLink, token } = await open('/command?token=theirs&ticket=t-1')
  expect(location.href).toBe(`${location.origin}/command?ticket=t-1`)
  expect([signInLink(), requests]).toEqual([{ kind: 'token_in_url' }, []])
  expect([token(), localStorage.getItem(TOKEN_KEY)]).toEqual([stored, stored])
})

it('leaves other fragments alone', async () => {
  const { signInLink } = await open('/command#main')
  expect([location.hash, signInLink()]).toEqual(['#main', { kind: 'none' }])
})
