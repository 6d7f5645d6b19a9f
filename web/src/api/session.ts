/**
 * Who is looking: a token, out of the link that `sunaba dev` prints or out of a form.
 *
 * It is taken out of the address at once, so that it is in no history, no screenshot and no link that somebody passes
 * on. Deliberately absent: making tokens. A new one comes by a link, the form, or another tab of this browser.
 */
const KEY = 'sunaba.token'

type Listener = () => void

const listeners = new Set<Listener>()
// What cannot be read is what was there before: so there must be something before.
let current: string | null = null
current = load()

/** The token, or `null` where nobody has given one: a plane that asks nobody answers all the same. */
export const token = () => current

/** Keeps a token for this browser, and tells whoever listens. */
export function signIn(value: string) {
  keep(value.trim() === '' ? null : value.trim())
}

/** Forgets it. */
export function signOut() {
  keep(null)
}

export function onToken(listener: Listener) {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/**
 * Asks for the token as it is kept now: another tab may have a newer one than this one began with.
 * Returns whether it is another than `refused`.
 */
export function renew(refused: string | null): boolean {
  const kept = read()
  if (kept === refused) return false
  current = kept
  for (const listener of listeners) listener()
  return true
}

function keep(value: string | null) {
  current = value
  try {
    if (value === null) localStorage.removeItem(KEY)
    else localStorage.setItem(KEY, value)
  } catch {
    // A browser that keeps nothing has it until the page is closed.
  }
  for (const listener of listeners) listener()
}

function load(): string | null {
  if (typeof location === 'undefined') return null
  const here = new URL(location.href)
  const given = here.searchParams.get('token')
  if (given === null) return read()
  here.searchParams.delete('token')
  history.replaceState(history.state, '', here)
  try {
    localStorage.setItem(KEY, given)
  } catch {
    // As above.
  }
  return given
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
    if (event.key === KEY) renew(current)
  })
}
