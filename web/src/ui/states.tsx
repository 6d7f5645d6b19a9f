import type { ReactNode } from 'react'
import { errorMessage } from '../api/errors'
import { Button } from './button'
import { Spinner } from './spinner'

/** The empty state of a list or page. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="flex flex-col items-center gap-3 px-6 py-16 text-center">
      <p className="text-base font-medium">{title}</p>
      {children !== undefined && <div className="max-w-md text-ink-soft">{children}</div>}
    </div>
  )
}

/** An error message with a retry button. */
export function Failed({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  return (
    <div role="alert" className="flex flex-col items-center gap-3 px-6 py-16 text-center">
      <p className="max-w-md">{errorMessage(error)}</p>
      <Button onClick={onRetry}>Try again</Button>
    </div>
  )
}

export function Loading({ what }: { what: string }) {
  return (
    <p role="status" className="flex items-center justify-center gap-2 px-6 py-16 text-ink-soft">
      <Spinner /> Loading {what}…
    </p>
  )
}
