import { Check, Circle, X } from 'lucide-react'
import { useState, type ReactNode } from 'react'
import { Link, Navigate } from 'react-router'
import { errorMessage } from '../../api/errors'
import { ApiError } from '../../api/http'
import { useCancelTask, useRetryTask } from '../../api/queries'
import { Button } from '../../ui/button'
import { Spinner } from '../../ui/spinner'
import { Empty, Failed, Loading } from '../../ui/states'
import { toast } from '../../ui/toast'
import { classes } from '../../util/classes'
import { paths } from '../../util/paths'
import { dateAndTime, timeOfDay } from '../../util/time'
import { Approval } from './approval'
import { progressOf, type ProgressData, type Step } from './progress'
import { useProgressData } from './use-progress'

/** The progress of a ticket. Redirects to its sandbox as soon as that runs. */
export function TicketProgress({ ticketId, isLive }: { ticketId: string; isLive: boolean }) {
  const known = useProgressData(ticketId, isLive)
  if (known.data !== undefined) return <ProgressView known={known.data} error={known.error} />
  if (known.error === null) return <Loading what="ticket" />
  if (known.error instanceof ApiError && known.error.status === 404) {
    return (
      <Empty title="Ticket not found">
        <Link to={paths.command} className="font-medium text-accent hover:underline">
          Create a ticket
        </Link>
      </Empty>
    )
  }
  return <Failed error={known.error} onRetry={() => void known.refetch()} />
}

function ProgressView({ known, error }: { known: ProgressData; error: Error | null }) {
  const { steps, waiting, sandboxId, end, needsApproval } = progressOf(known)
  if (sandboxId !== null) return <Navigate to={paths.sandbox(sandboxId)} replace />
  const { ticket, task } = known
  return (
    <section aria-labelledby="ticket-title" className="rounded-xl border border-line bg-surface p-4 sm:p-5">
      <div className="flex items-start gap-3">
        <h1 id="ticket-title" className="min-w-0 flex-1 text-base font-semibold break-words">
          {ticket.title}
        </h1>
        <Link to={paths.command} className="text-sm whitespace-nowrap text-accent hover:underline">
          New prompt
        </Link>
      </div>
      <p role="status" className="mt-1 text-sm text-ink-soft">
        {waiting ?? (end === null ? '' : endings[end])}
      </p>
      <ol aria-label="Progress" className="mt-4 flex flex-col">
        {steps.map((step, index) => (
          <StepLine key={step.key} step={step} isLast={index === steps.length - 1} />
        ))}
      </ol>
      {error !== null && <p className="mt-3 text-sm text-warn">{errorMessage(error)} Retrying…</p>}
      {needsApproval && <Approval ticketId={ticket.id} />}
      {task !== null && <TaskButtons taskId={task.id} sandboxId={task.sandbox_id} hasEnded={end !== null} />}
    </section>
  )
}

const endings = {
  failed: 'Ticket failed. The last step shows the reason.',
  cancelled: 'Ticket cancelled.',
  not_approved: 'Ticket not approved.',
}

function TaskButtons({ taskId, sandboxId, hasEnded }: { taskId: string; sandboxId: string | null; hasEnded: boolean }) {
  const cancel = useCancelTask()
  const retry = useRetryTask()
  const [isBusy, setBusy] = useState(false)
  const run = async (work: () => Promise<unknown>, done: string) => {
    setBusy(true)
    try {
      await work()
      toast(done)
    } catch (error) {
      toast(errorMessage(error), { tone: 'bad' })
    }
    setBusy(false)
  }
  return (
    <div className="mt-4 flex flex-wrap items-center gap-2">
      {hasEnded ? (
        <Button
          variant="primary"
          disabled={isBusy}
          onClick={() => void run(() => retry.mutateAsync(taskId), 'Retrying…')}
        >
          Retry
        </Button>
      ) : (
        <Button
          disabled={isBusy}
          onClick={() =>
            void run(() => cancel.mutateAsync({ taskId, reason: 'cancelled_by_user' }), 'Cancelled. You can retry it.')
          }
        >
          Cancel
        </Button>
      )}
      {sandboxId !== null && (
        <Link to={paths.sandbox(sandboxId)} className="px-2 text-sm text-accent hover:underline">
          Open {hasEnded ? 'last ' : ''}sandbox
        </Link>
      )}
    </div>
  )
}

const marks: Record<Step['state'], { icon: ReactNode; style: string; label: string }> = {
  done: { icon: <Check size={13} aria-hidden />, style: 'border-good/40 bg-good-soft text-good', label: 'Done' },
  now: { icon: <Spinner size={13} />, style: 'border-info/40 bg-info-soft text-info', label: 'Now' },
  ahead: { icon: <Circle size={7} aria-hidden />, style: 'border-line text-ink-faint', label: 'To do' },
  failed: { icon: <X size={13} aria-hidden />, style: 'border-bad/40 bg-bad-soft text-bad', label: 'Failed' },
}

function StepLine({ step, isLast }: { step: Step; isLast: boolean }) {
  const { icon, style, label } = marks[step.state]
  return (
    <li aria-current={step.state === 'now' ? 'step' : undefined} className="flex gap-3">
      <div className="flex flex-col items-center">
        <span className={classes('inline-grid size-6 shrink-0 place-items-center rounded-full border', style)}>
          {icon}
        </span>
        {!isLast && <span aria-hidden className="my-0.5 w-px flex-1 bg-line" />}
      </div>
      <div className={classes('min-w-0 flex-1', !isLast && 'pb-4')}>
        <p className="flex items-baseline gap-3 text-sm">
          <span className="sr-only">{label}: </span>
          <span
            className={step.state === 'ahead' ? 'text-ink-faint' : step.state === 'now' ? 'font-medium' : undefined}
          >
            {step.text}
          </span>
          {step.at !== null && (
            <time
              dateTime={step.at}
              title={dateAndTime(step.at)}
              className="ml-auto text-xs text-ink-faint tabular-nums"
            >
              {timeOfDay(step.at)}
            </time>
          )}
        </p>
        {step.detail !== null && (
          <p className={classes('mt-0.5 text-sm break-words', step.state === 'failed' ? 'text-bad' : 'text-ink-soft')}>
            {step.detail}
          </p>
        )}
      </div>
    </li>
  )
}
