import { TriangleAlert } from 'lucide-react'
import { use, useMemo } from 'react'
import { errorMessage } from '../../../api/errors'
import { useCancelMessage, useResendMessage } from '../../../api/queries'
import type { MessageRow, Row } from '../../../timeline/rows'
import { count } from '../../../util/numbers'
import { SandboxEnded } from '../sandbox-ended'
import { ActionButton } from './action-button'

/** Why a message is undeliverable, and what the user can do about it. */
export function Undeliverable({ sandboxId, messageId, deliveries }: UndeliverableProps) {
  const resend = useResendMessage(sandboxId)
  const cancel = useCancelMessage(sandboxId)
  const ended = use(SandboxEnded)
  const isBusy = resend.isPending || cancel.isPending
  // Only the last action may show an error.
  const act = (action: typeof resend, other: typeof resend) => {
    other.reset()
    action.mutate(messageId)
  }
  const error = resend.error ?? cancel.error
  return (
    <div role="group" aria-label="Undeliverable message" className="flex flex-col items-end text-xs">
      <div className="flex flex-wrap items-center justify-end gap-x-3">
        <span className="flex items-center gap-1 text-bad">
          <TriangleAlert size={12} aria-hidden className="shrink-0" /> {reason(deliveries)}
        </span>
        {!ended && (
          <>
            <ActionButton
              disabled={isBusy}
              busy={resend.isPending ? 'Sending…' : null}
              onClick={() => act(resend, cancel)}
            >
              Send again
            </ActionButton>
            <ActionButton
              disabled={isBusy}
              busy={cancel.isPending ? 'Cancelling…' : null}
              label="Cancel message"
              onClick={() => act(cancel, resend)}
            >
              Cancel
            </ActionButton>
          </>
        )}
      </div>
      {error !== null && (
        <p role="alert" className="text-bad">
          {errorMessage(error)}
        </p>
      )}
    </div>
  )
}

interface UndeliverableProps {
  sandboxId: string
  messageId: string
  deliveries: number | null
}

function reason(deliveries: number | null): string {
  const times = deliveries === null ? 'several times' : deliveries === 1 ? 'once' : `${count(deliveries)} times`
  return `Undeliverable: the worker took it ${times} and never confirmed it.`
}

/** Undeliverable messages, shown above the composer, because their rows may be far up in the feed. */
export function UndeliverableMessages({ sandboxId, rows }: { sandboxId: string; rows: readonly Row[] }) {
  const messages = useMemo(() => rows.filter(isUndeliverable), [rows])
  if (messages.length === 0) return null
  return (
    <>
      <p role="alert" className="sr-only">
        {messages.length === 1
          ? 'A message is undeliverable.'
          : `${count(messages.length)} messages are undeliverable.`}
      </p>
      <ul aria-label="Undeliverable messages" className="mb-2 flex max-h-48 flex-col gap-1.5 overflow-auto">
        {messages.map((message) => (
          <li key={message.key} className="rounded-lg border border-bad/40 bg-bad-soft px-3 py-1.5 text-sm">
            <p className="line-clamp-2 break-words whitespace-pre-wrap">{message.text}</p>
            <Undeliverable sandboxId={sandboxId} messageId={message.messageId} deliveries={message.deliveries} />
          </li>
        ))}
      </ul>
    </>
  )
}

/** Whether the row is a message that can be sent again. */
export function isUndeliverable(row: Row): row is MessageRow & { messageId: string } {
  return row.kind === 'message' && row.messageId !== null && row.receipts.at(-1)?.state === 'undeliverable'
}
