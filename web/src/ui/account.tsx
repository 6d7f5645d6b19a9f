import { KeyRound } from 'lucide-react'
import { Dialog } from 'radix-ui'
import { useId, useState, useSyncExternalStore } from 'react'
import { onToken, signIn, signOut, token } from '../api/auth'
import { Button } from './button'
import { CodeText } from './code-text'

/** Sign-in: set, replace or remove the token. */
export function Account() {
  const current = useSyncExternalStore(onToken, token)
  const [open, setOpen] = useState(false)
  const [typed, setTyped] = useState('')
  const field = useId()
  return (
    <Dialog.Root open={open} onOpenChange={setOpen}>
      <Dialog.Trigger asChild>
        <button
          type="button"
          aria-label={current === null ? 'Sign in with a token' : 'Your token'}
          title={current === null ? 'Sign in with a token' : 'Signed in'}
          className="inline-grid size-9 place-items-center rounded-md text-ink-soft hover:bg-sunken hover:text-ink"
        >
          <KeyRound size={16} aria-hidden />
        </button>
      </Dialog.Trigger>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-40 bg-black/40" />
        <Dialog.Content className="fixed top-1/2 left-1/2 z-50 w-[min(28rem,calc(100vw-2rem))] -translate-1/2 rounded-xl border border-line bg-surface p-5 shadow-xl">
          <Dialog.Title className="text-base font-semibold">Your token</Dialog.Title>
          <Dialog.Description className="mt-1 text-sm text-ink-soft">
            <CodeText>
              {current === null
                ? 'Paste the token from your organisation. For a control plane on your machine, run `sunaba link` instead and open the link that it prints.'
                : 'A token is stored in this browser. Paste another to replace it.'}
            </CodeText>
          </Dialog.Description>
          <form
            className="mt-4 flex flex-col gap-3"
            onSubmit={(event) => {
              event.preventDefault()
              signIn(typed)
              setTyped('')
              setOpen(false)
            }}
          >
            <label htmlFor={field} className="text-sm font-medium">
              Token
            </label>
            <input
              id={field}
              type="password"
              autoComplete="off"
              value={typed}
              onChange={(event) => setTyped(event.target.value)}
              className="rounded-md border border-line-strong/60 bg-page px-3 py-2 font-mono text-sm"
            />
            <div className="flex justify-end gap-2">
              {current !== null && (
                <Button
                  variant="danger"
                  onClick={() => {
                    signOut()
                    setOpen(false)
                  }}
                >
                  Sign out
                </Button>
              )}
              <Button variant="primary" type="submit" disabled={typed.trim() === ''}>
                Sign in
              </Button>
            </div>
          </form>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
