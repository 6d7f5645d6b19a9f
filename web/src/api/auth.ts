/**
 * The access token of this browser, from a sign-in link (`sign-in-link.ts`), the sign-in form, or another tab of this
 * browser. It is never read from a URL.
 */
const KEY = 'sunaba.token'

type Listener = () => void

const listeners = new Set<Listener>()
// `read` falls back to `current`, so `current` must be initialised before it runs.
let current: string | null = null
current = read()

/** The token, or `null` if there is none. A control plane with anonymous access accepts requests without one. */
export const token = () => current

/** Stores a token for this browser and notifies listeners. */
export function signIn(value: string) {
  store(value.trim() === '' ? null : value.trim())
}

export function signOut() {
  store(null)
}

export function onToken(listener: Listener) {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/**
 * Reloads the token from storage: another tab may have stored a newer one.
 * Returns whether it differs from `rejected`.
 */
export function reloadToken(rejected: string | null): boolean {
  const stored = read()
  if (stored === rejected) return false
  current = stored
  for (const listener of listeners) listener()
  return true
}

function store(value: string | null) {
  current = value
  try {
    if (value === null) localStorage.removeItem(KEY)
    else localStorage.setItem(KEY, value)
  } catch {
    // Without local storage the token is kept until the page is closed.
  }
  for (const listener of listeners) listener()
}

function read(): string | null {
  try {
    return localStorage.getItem(KEY)
  } catch {
    return current
  }
}

// Another tab has signed in or out.
if (typeof addEventListener !== 'undefined') {
  addEventListener('storage', (event) => {
    if (event.key === KEY) reloadToken(current)
  })
}
