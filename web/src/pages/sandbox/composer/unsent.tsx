import { TriangleAlert } from 'lucide-react'
import { Spinner } from '../../../ui/spinner'
import { classes } from '../../../util/classes'
import { ActionButton } from './action-button'
import type { Outbox, Outgoing } from './outbox'
import type { OutboxStore } from './outbox-store'

/** Messages that are not in the log yet, shown above the composer. */
export function Unsent({ messages, outbox }: { messages: Outbox; outbox: OutboxStore }) {
  if (messages.length === 0) return null
  return (
    <ul aria-label="Pending messages" className="mb-2 flex max-h-48 flex-col gap-1.5 overflow-auto">
      {messages.map((message) => (
        <li
          key={message.id}
          className={classes(
            'rounded-lg border px-3 py-1.5 text-sm',
            message.state === 'failed' ? 'border-bad/40 bg-bad-soft' : 'border-accent/25 bg-accent-soft',
          )}
        >
          <p className="line-clamp-3 break-words whitespace-pre-wrap">{message.content}</p>
          <p className="flex flex-wrap items-center gap-x-3 text-xs">
            <MessageStatus message={message} />
            {message.state === 'failed' && (
              <>
                <ActionButton onClick={() => outbox.retry(message.id)}>Retry</ActionButton>
                <ActionButton onClick={() => outbox.edit(message.id)}>Edit</ActionButton>
                <ActionButton onClick={() => outbox.discard(message.id)}>Discard</ActionButton>
              </>
            )}
          </p>
        </li>
      ))}
    </ul>
  )
}

function MessageStatus({ message }: { message: Outgoing }) {
  switch (message.state) {
    case 'sending':
      return (
        <span className="flex items-center gap-1 text-ink-soft">
          <Spinner size={12} /> Sending…
        </span>
      )
    case 'queued':
      return <span className="text-ink-soft">Queued</span>
    case 'failed':
      return (
        <span className="flex items-center gap-1 text-bad">
          <TriangleAlert size={12} aria-hidden /> Not sent. {message.problem}
        </span>
      )
  }
}
