import type { ReactNode } from 'react'
import { Spinner } from '../../../ui/spinner'

interface ActionButtonProps {
  onClick: () => void
  disabled?: boolean
  /** What it is doing. The button shows this and is disabled. */
  busy?: string | null
  /** Accessible name, if the visible text is too short on its own. It starts with that text. */
  label?: string
  children: ReactNode
}

/** A small button in the status line of a message. */
export function ActionButton({ onClick, disabled = false, busy = null, label, children }: ActionButtonProps) {
  return (
    <button
      type="button"
      onClick={onClick}
      disabled={disabled || busy !== null}
      aria-label={busy ?? label}
      className="inline-flex min-h-6 items-center gap-1 rounded font-medium text-accent hover:underline disabled:cursor-not-allowed disabled:text-ink-soft disabled:no-underline"
    >
      {busy === null ? (
        children
      ) : (
        <>
          <Spinner size={12} /> {busy}
        </>
      )}
    </button>
  )
}
