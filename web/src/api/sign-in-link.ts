import type { SignIn, SignedIn } from './contract'
import { api } from '../util/paths'
import { signIn, token } from './auth'
import { ApiError, post } from './http'

/**
 * The link that `sunaba dev` and `sunaba link` print. Its fragment has a one-time code, which is exchanged for the token of
 * this browser.
 *
 * A link must not change who is signed in without a question: any page can have one. Links with a token
 * (`?token=…`) are not accepted for the same reason, and because URLs end up in histories and logs.
 */
export type SignInLink =
  | { kind: 'none' }
  /** A token is stored already. The code is used when the user confirms. */
  | { kind: 'confirming' }
  | { kind: 'exchanging' }
  | { kind: 'failed'; message: string; canRetry: boolean }
  | { kind: 'token_in_url' }

let code: string | null = null
let link: SignInLink = { kind: 'none' }
const listeners = new Set<() => void>()

export const signInLink = () => link

export function onSignInLink(listener: () => void) {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Takes code and token out of the address, before any request is sent. */
export function openSignInLink() {
  const url = new URL(location.href)
  const hasToken = url.searchParams.has('token')
  const fragment = new URLSearchParams(url.hash.slice(1))
  code = fragment.get('code')
  if (hasToken) url.searchParams.delete('token')
  if (code !== null) url.hash = ''
  if (hasToken || code !== null) history.replaceState(history.state, '', url)
  if (code === null) change(hasToken ? { kind: 'token_in_url' } : { kind: 'none' })
  else if (token() === null) void exchangeCode()
  else change({ kind: 'confirming' })
}

/** Also the confirmation that the stored token may be replaced. */
export async function exchangeCode() {
  if (code === null) return
  change({ kind: 'exchanging' })
  try {
    const { token } = await post<SignedIn>(api.signIn, { code } satisfies SignIn)
    closeSignInLink()
    signIn(token)
  } catch (error) {
    change({ kind: 'failed', message: message(error), canRetry: error instanceof ApiError && error.isRetryable })
  }
}

/** Forgets the code. It expires on its own. */
export function closeSignInLink() {
  code = null
  change({ kind: 'none' })
}

function message(error: unknown): string {
  if (!(error instanceof ApiError)) return 'Something went wrong. Run `sunaba link` and open the link that it prints.'
  switch (error.code) {
    case 'unauthorized':
      return 'The link has expired or was used before. Run `sunaba link` and open the link that it prints.'
    case 'route_not_found':
      return 'This control plane has no sign-in links. Sign in with a token instead: use the key at the top right.'
    default:
      return error.message
  }
}

function change(value: SignInLink) {
  link = value
  for (const listener of listeners) listener()
}
