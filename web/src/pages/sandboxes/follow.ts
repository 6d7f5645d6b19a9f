import { useQueryClient } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { EventFrame, KnownEventType } from '../../api/contract'
import {
  rereadLists,
  usePolledNewest,
  useRefresher,
  useSandboxList,
  useTaskList,
  useTicketsToApprove,
} from '../../api/lists'
import { TASK_TURNS, TICKET_TURNS } from '../../api/turns'
import { useLive } from '../../api/use-live'
import { listing, type Card } from './listing'

/** Turns of lives. Everything else that agents say would be a torrent on this page. */
const TURNS: KnownEventType[] = [
  ...TASK_TURNS,
  ...TICKET_TURNS,
  'sandbox.running',
  'sandbox.completing',
  'sandbox.completed',
  'sandbox.failed',
  'sandbox.terminated',
  'sandbox.terminated_idle',
  // Nobody tells of the life of a sandbox that the plane did not make, but its agent.
  'agent.started',
  'agent.completed',
  'agent.failed',
]

const NOTHING: readonly Card[] = []

/** The list as it is now, and how it is kept up to date. */
export function useFollowedListing() {
  const client = useQueryClient()
  const refresher = useRefresher()
  const tasks = useTaskList()
  const sandboxes = useSandboxList()
  const tickets = useTicketsToApprove()
  const hear = (frame: EventFrame) => {
    if (frame.entity_type === 'task') refresher.task(frame.entity_id)
    else if (frame.entity_type === 'sandbox') refresher.sandbox(frame.entity_id)
    else if (frame.entity_type === 'ticket') refresher.tickets()
  }
  const live = useLive({ event_types: TURNS }, hear, () => {
    // Everything is read again, and what failed or hangs of before says nothing of the plane that is there now.
    refresher.reset()
    void rereadLists(client)
  })
  usePolledNewest(live.connection === 'live')

  const cards = useMemo(() => {
    // Both, so that a sandbox is not shown for a moment without the task that it belongs to.
    if (tasks.data === undefined || sandboxes.data === undefined) return NOTHING
    return listing({
      tasks: tasks.data.items.values(),
      allTasks: tasks.data.whole,
      sandboxes: sandboxes.data.items.values(),
      ticketsToApprove: tickets.data ?? [],
    })
  }, [tasks.data, sandboxes.data, tickets.data])

  const hasBoth = tasks.data !== undefined && sandboxes.data !== undefined
  const error = tasks.error ?? sandboxes.error
  return {
    cards,
    live,
    refresher,
    state: hasBoth ? ('ready' as const) : error === null ? ('loading' as const) : ('failed' as const),
    /** Older ones are on their way. */
    isGrowing: hasBoth && error === null && !(tasks.data.whole && sandboxes.data.whole),
    isRefreshing: tasks.isFetching || sandboxes.isFetching,
    error,
    refresh: () => void rereadLists(client),
  }
}
