import { Link } from 'react-router'
import type { TaskOut, TicketOut } from '../../api/contract'
import { useRecentTasks, useRecentTickets } from '../../api/lists'
import { Button } from '../../ui/button'
import { errorMessage } from '../../api/errors'
import { ofTask, ofTicket, StatusBadge } from '../../ui/status'
import { paths } from '../../util/paths'
import { dateAndTime, relative, useNow } from '../../util/time'

/** Number of tickets shown and used for project and repository suggestions. */
export const RECENT = 12

export function RecentTickets() {
  const tickets = useRecentTickets(RECENT)
  const tasks = useRecentTasks()
  const now = useNow()
  return (
    <section aria-labelledby="recent-title">
      <div className="flex items-baseline justify-between gap-3">
        <h2 id="recent-title" className="text-sm font-semibold">
          Recent tickets
        </h2>
        <Link to={paths.sandboxes} className="text-sm text-accent hover:underline">
          All sandboxes
        </Link>
      </div>
      {tickets.isPending && (
        <div role="status" aria-label="Loading recent tickets…" className="mt-2 flex flex-col gap-2">
          {Array.from({ length: 3 }, (_, place) => (
            <div key={place} className="h-11 animate-pulse rounded-lg border border-line bg-surface" />
          ))}
        </div>
      )}
      {tickets.isError && tickets.data === undefined && (
        <div role="alert" className="mt-2 flex flex-wrap items-center gap-3 text-sm text-ink-soft">
          {errorMessage(tickets.error)}
          <Button onClick={() => void tickets.refetch()}>Try again</Button>
        </div>
      )}
      {tickets.data?.length === 0 && (
        <p className="mt-2 text-sm text-ink-soft">No tickets yet. Your first ticket will appear here.</p>
      )}
      {tickets.data !== undefined && tickets.data.length > 0 && (
        <ul className="mt-2 divide-y divide-line overflow-hidden rounded-lg border border-line bg-surface">
          {tickets.data.map((ticket) => {
            const task = tasks.data?.find((known) => known.ticket_id === ticket.id)
            return (
              <li key={ticket.id} className="relative flex items-center gap-3 px-3 py-2.5 hover:bg-sunken">
                <Link
                  to={hrefOf(ticket, task)}
                  className="min-w-0 flex-1 truncate text-sm after:absolute after:inset-0"
                  title={ticket.title}
                >
                  {ticket.title}
                </Link>
                <StatusBadge status={statusOf(ticket, task)} />
                <time
                  dateTime={ticket.created_at}
                  title={dateAndTime(ticket.created_at)}
                  className="w-16 text-right text-xs whitespace-nowrap text-ink-faint"
                >
                  {relative(ticket.created_at, now)}
                </time>
              </li>
            )
          })}
        </ul>
      )}
    </section>
  )
}

/** The sandbox of its newest task if there is one, otherwise its progress. */
function hrefOf(ticket: TicketOut, task: TaskOut | undefined): string {
  const hasStarted = task?.sandbox_id != null && task.status !== 'pending' && task.status !== 'claiming'
  return hasStarted && task.sandbox_id !== null ? paths.sandbox(task.sandbox_id) : paths.progress(ticket.id)
}

/** The status of the task is more precise than that of the ticket. */
function statusOf(ticket: TicketOut, task: TaskOut | undefined) {
  return task === undefined || ticket.approval_status !== 'approved' ? ofTicket(ticket) : ofTask(task)
}
