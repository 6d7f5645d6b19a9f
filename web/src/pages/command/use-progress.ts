import { useQuery } from '@tanstack/react-query'
import type { EventPage, KnownEventType, TaskOut, TicketShown } from '../../api/contract'
import { get, type Query } from '../../api/http'
import { keys } from '../../api/queries'
import { TASK_TURNS, TICKET_TURNS } from '../../api/turns'
import { fromPage, type LogEvent } from '../../timeline/event'
import { api } from '../../util/paths'
import type { Known } from './progress'

/** What the plane tells of a sandbox that comes up. */
const SPAWNING: KnownEventType[] = [
  'sandbox.preparing',
  'sandbox.creating',
  'sandbox.uploading',
  'sandbox.starting',
  'sandbox.spawned',
  'sandbox.running',
  'sandbox.retrying',
  'sandbox.failed',
]

/** What is said on the socket of a ticket's way to its sandbox. */
export const TURNS: KnownEventType[] = [
  ...SPAWNING,
  ...TASK_TURNS,
  ...TICKET_TURNS,
]

const WITHOUT_SOCKET_MS = 3_000
const WITH_SOCKET_MS = 20_000

export const progressKey = (ticketId: string) => [...keys.ticket(ticketId), 'progress'] as const

/** A ticket and everything on its way to its sandbox. Frames say when to look; what they say is read, not trusted. */
export function useKnown(ticketId: string, isLive: boolean) {
  return useQuery({
    queryKey: progressKey(ticketId),
    queryFn: ({ signal }) => read(ticketId, signal),
    refetchInterval: isLive ? WITH_SOCKET_MS : WITHOUT_SOCKET_MS,
  })
}

async function read(ticketId: string, signal: AbortSignal): Promise<Known> {
  const ticket = await get<TicketShown>(api.ticket(ticketId), {}, signal)
  const newest = ticket.tasks[0]
  const [ticketEvents, task, taskEvents] = await Promise.all([
    eventsAt(api.ticketEvents(ticketId), {}, signal),
    newest === undefined ? null : get<TaskOut>(api.task(newest.id), {}, signal),
    newest === undefined ? [] : eventsAt(api.taskEvents(newest.id), {}, signal),
  ])
  const sandbox = task?.sandbox_id ?? null
  const sandboxEvents =
    sandbox === null ? [] : await eventsAt(api.events(sandbox), { event_type: SPAWNING.join(',') }, signal)
  return { ticket, ticketEvents, task, taskEvents, sandboxEvents }
}

/** The beginning of a log: a ticket, a task and the making of a sandbox have a few events each. */
async function eventsAt(path: string, query: Query, signal: AbortSignal): Promise<LogEvent[]> {
  const page = await get<EventPage>(path, { ...query, order: 'oldest', limit: 500 }, signal)
  return page.events.map(fromPage)
}
