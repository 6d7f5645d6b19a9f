import type { MessageState } from '../../../api/contract'
import type { Receipt } from '../../../timeline/rows'
import { classes } from '../../../util/classes'
import { dateAndTime, timeOfDay } from '../../../util/time'

const labels: Record<MessageState, string> = {
  queued: 'Queued',
  fetched: 'Fetched',
  delivered: 'Delivered',
  started: 'Started',
  completed: 'Done',
  cancelled: 'Cancelled',
}

const meanings: Record<MessageState, string> = {
  queued: 'Stored by the control plane',
  fetched: 'Fetched by the worker',
  delivered: 'Delivered to the agent',
  started: 'The agent is working on it',
  completed: 'The agent has finished it',
  cancelled: 'Cancelled',
}

/** Delivery states of a message. With `onCancel` it can be cancelled until a worker has confirmed it. */
export function Receipts({ receipts, onCancel }: { receipts: readonly Receipt[]; onCancel?: () => void }) {
  const last = receipts.at(-1)
  if (last === undefined) return null
  const canCancel = last.state === 'queued' || last.state === 'fetched'
  return (
    <div className="flex flex-wrap items-center justify-end gap-x-2 text-xs text-ink-faint">
      <ol aria-label="Delivery status" className="flex flex-wrap items-center gap-x-1">
        {receipts.map((receipt) => (
          <li
            key={receipt.state}
            className={classes(
              "not-first:before:mr-1 not-first:before:content-['·']",
              receipt === last && tone(receipt.state),
            )}
          >
            <time dateTime={receipt.at} title={`${meanings[receipt.state]}, ${dateAndTime(receipt.at)}`}>
              {labels[receipt.state]}
              <span className={classes(receipt !== last && 'sr-only')}> {timeOfDay(receipt.at)}</span>
            </time>
          </li>
        ))}
      </ol>
      {last.detail !== null && <span>({last.detail})</span>}
      {onCancel !== undefined && canCancel && (
        <button type="button" onClick={onCancel} className="min-h-6 rounded font-medium text-accent hover:underline">
          Cancel message
        </button>
      )}
    </div>
  )
}

function tone(state: MessageState) {
  if (state === 'completed') return 'font-medium text-good'
  return state === 'cancelled' ? 'font-medium text-warn' : 'font-medium text-ink-soft'
}
