import { AlertDialog } from 'radix-ui'
import { useSyncExternalStore } from 'react'
import { closeSignInLink, exchangeCode, onSignInLink, type SignInLink, signInLink } from '../api/sign-in-link'
import { Button } from './button'
import { CodeText } from './code-text'

/** Asks before a sign-in link replaces the stored token, and explains why a link does not sign in. */
export function SignInDialog() {
  const link = useSyncExternalStore(onSignInLink, signInLink)
  const text = textOf(link)
  return (
    <AlertDialog.Root open={text !== null} onOpenChange={(open) => (open ? undefined : closeSignInLink())}>
      {text !== null && (
        <AlertDialog.Portal>
          <AlertDialog.Overlay className="fixed inset-0 z-40 bg-black/40" />
          <AlertDialog.Content className="fixed top-1/2 left-1/2 z-50 w-[min(28rem,calc(100vw-2rem))] -translate-1/2 rounded-xl border border-line bg-surface p-5 shadow-xl">
            <AlertDialog.Title className="text-base font-semibold">{text.title}</AlertDialog.Title>
            <AlertDialog.Description className="mt-1 text-sm text-ink-soft">
              <CodeText>{text.description}</CodeText>
            </AlertDialog.Description>
            <div className="mt-4 flex flex-wrap justify-end gap-2">
              <AlertDialog.Cancel asChild>
                <Button>{text.cancel}</Button>
              </AlertDialog.Cancel>
              {text.confirm !== null && (
                // Not `AlertDialog.Action`, which would also close the link.
                <Button variant="primary" onClick={() => void exchangeCode()}>
                  {text.confirm}
                </Button>
              )}
            </div>
          </AlertDialog.Content>
        </AlertDialog.Portal>
      )}
    </AlertDialog.Root>
  )
}

interface Text {
  title: string
  description: string
  cancel: string
  confirm: string | null
}

/** `null` if there is nothing to say. */
function textOf(link: SignInLink): Text | null {
  switch (link.kind) {
    case 'none':
    case 'exchanging':
      return null
    case 'confirming':
      return {
        title: 'Replace the current sign-in?',
        description:
          'This browser is already signed in. The link that you opened replaces that with a sign-in as the operator of this control plane. Continue only if you asked for the link.',
        cancel: 'Keep current sign-in',
        confirm: 'Replace',
      }
    case 'failed':
      return {
        title: 'Sign-in failed',
        description: link.message,
        cancel: 'Close',
        confirm: link.canRetry ? 'Try again' : null,
      }
    case 'token_in_url':
      return {
        title: 'This link does not sign in',
        description:
          'Tokens in links are no longer accepted. The token was removed from the address and nothing was stored. Run `sunaba link` for a link that signs in, or enter a token with the key at the top right.',
        cancel: 'Close',
        confirm: null,
      }
  }
}
