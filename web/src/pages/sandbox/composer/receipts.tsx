import type { MessageState } from '../../../api/contract'
import type { Receipt } from '../../../timeline/rows'
import { classes } from '../../../util/classes'
import { dateAndTime, timeOfDay } from '../../../util/time'
import { ActionButton } from './action-button'

const labels: Record<MessageState, string> = {
  queued: 'Queued',
  fetched: 'Fetched',
  undeliverable: 'Undeliverable',
  delivered: 'Delivered',
  started: 'Started',
  completed: 'Done',
  cancelled: 'Cancelled',
}

const meanings: Record<MessageState, string> = {
  queued: 'Stored by the control plane',
  fetched: 'Fetched by the worker',
  undeliverable: 'Not confirmed by the worker',
  delivered: 'Delivered to the agent',
  started: 'The agent is working on it',
  completed: 'The agent has finished it',
  cancelled: 'Cancelled',
}

interface ReceiptsProps {
  receipts: readonly Receipt[]
  /** The message was undeliverable and is sent again; the receipts are those since then. */
  sentAgain?: boolean
  onCancel?: () => void
  cancelling?: boolean
}

/**
 * Delivery states of a message. With `onCancel` it can be cancelled until a worker has confirmed it. For an
 * undeliverable message, `Undeliverable` shows the reason and the actions.
 */
export function Receipts({ receipts, sentAgain = false, onCancel, cancelling = false }: ReceiptsProps) {
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
              {receipt.state === 'queued' && sentAgain ? 'Queued again' : labels[receipt.state]}
              <span className={classes(receipt !== last && 'sr-only')}> {timeOfDay(receipt.at)}</span>
            </time>
          </li>
        ))}
      </ol>
      {last.detail !== null && last.state !== 'undeliverable' && <span>({last.detail})</span>}
      {onCancel !== undefined && canCancel && (
        <ActionButton onClick={onCancel} busy={cancelling ? 'Cancelling…' : null}>
          Cancel message
        </ActionButton>
      )}
    </div>
  )
}

function tone(state: MessageState) {
  if (state === 'completed') return 'font-medium text-good'
  if (state === 'undeliverable') return 'font-medium text-bad'
  return state === 'cancelled' ? 'font-medium text-warn' : 'font-medium text-ink-soft'
}
