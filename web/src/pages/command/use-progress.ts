import { useQuery } from '@tanstack/react-query'
import type { EventPage, TaskOut, TicketDetails } from '../../api/contract'
import { get, type Query } from '../../api/http'
import { keys } from '../../api/queries'
import { fromPage, type LogEvent } from '../../timeline/event'
import { eventTypesWith } from '../../timeline/event-traits'
import { api } from '../../util/paths'
import type { ProgressData } from './progress'

/** Event types to subscribe to for the progress of a ticket. */
export const PROGRESS_EVENTS = eventTypesWith('changes_progress')

/** Those of a starting sandbox. */
const PROVISIONING = PROGRESS_EVENTS.filter((type) => type.startsWith('sandbox.'))

const WITHOUT_SOCKET_MS = 3_000
const WITH_SOCKET_MS = 20_000

export const progressKey = (ticketId: string) => [...keys.ticket(ticketId), 'progress'] as const

/** A ticket with everything its progress depends on. Frames only trigger a refetch; their content is not used. */
export function useProgressData(ticketId: string, isLive: boolean) {
  return useQuery({
    queryKey: progressKey(ticketId),
    queryFn: ({ signal }) => read(ticketId, signal),
    refetchInterval: isLive ? WITH_SOCKET_MS : WITHOUT_SOCKET_MS,
  })
}

async function read(ticketId: string, signal: AbortSignal): Promise<ProgressData> {
  const ticket = await get<TicketDetails>(api.ticket(ticketId), {}, signal)
  const newest = ticket.tasks[0]
  const [ticketEvents, task, taskEvents] = await Promise.all([
    eventsAt(api.ticketEvents(ticketId), {}, signal),
    newest === undefined ? null : get<TaskOut>(api.task(newest.id), {}, signal),
    newest === undefined ? [] : eventsAt(api.taskEvents(newest.id), {}, signal),
  ])
  const sandbox = task?.sandbox_id ?? null
  const sandboxEvents =
    sandbox === null ? [] : await eventsAt(api.events(sandbox), { event_type: PROVISIONING.join(',') }, signal)
  return { ticket, ticketEvents, task, taskEvents, sandboxEvents }
}

/** The first page of a log. Tickets, tasks and starting sandboxes have only a few events. */
async function eventsAt(path: string, query: Query, signal: AbortSignal): Promise<LogEvent[]> {
  const page = await get<EventPage>(path, { ...query, order: 'oldest', limit: 500 }, signal)
  return page.events.map(fromPage)
}
