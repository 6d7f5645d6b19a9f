import { TriangleAlert } from 'lucide-react'
import type { ReactNode } from 'react'
import { Spinner } from '../../../ui/spinner'
import { classes } from '../../../util/classes'
import type { Outbox, Outgoing } from './outbox'
import type { OutboxStore } from './outbox-store'

/** What is sent and not in the log yet, right above where it was typed. */
export function Unsent({ messages, outbox }: { messages: Outbox; outbox: OutboxStore }) {
  if (messages.length === 0) return null
  return (
    <ul aria-label="Messages on their way" className="mb-2 flex max-h-48 flex-col gap-1.5 overflow-auto">
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
            <Standing message={message} />
            {message.state === 'failed' && (
              <>
                <Act onClick={() => outbox.retry(message.id)}>Retry</Act>
                <Act onClick={() => outbox.edit(message.id)}>Edit</Act>
                <Act onClick={() => outbox.discard(message.id)}>Discard</Act>
              </>
            )}
          </p>
        </li>
      ))}
    </ul>
  )
}

function Standing({ message }: { message: Outgoing }) {
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

function Act({ onClick, children }: { onClick: () => void; children: ReactNode }) {
  return (
    <button type="button" onClick={onClick} className="min-h-6 rounded font-medium text-accent hover:underline">
      {children}
    </button>
  )
}
