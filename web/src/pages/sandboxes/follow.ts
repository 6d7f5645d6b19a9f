import { useQueryClient } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { EventFrame } from '../../api/contract'
import {
  refetchLists,
  usePolledNewest,
  useRefresher,
  useSandboxList,
  useTaskList,
  useTicketsToApprove,
} from '../../api/lists'
import { useLive } from '../../api/use-live'
import { eventTypesWith } from '../../timeline/event-traits'
import { listing, type Card } from './listing'

/**
 * Lifecycle events only: subscribing to all agent events would be far too much traffic for this page. The lifecycle of a
 * registered sandbox is visible only through its agent.
 */
const LIFECYCLE_EVENTS = eventTypesWith('changes_card')

const NO_CARDS: readonly Card[] = []

/** The list of cards, kept up to date by the socket or by polling. */
export function useFollowedListing() {
  const client = useQueryClient()
  const refresher = useRefresher()
  const tasks = useTaskList()
  const sandboxes = useSandboxList()
  const tickets = useTicketsToApprove()
  const onFrame = (frame: EventFrame) => {
    if (frame.entity_type === 'task') refresher.task(frame.entity_id)
    else if (frame.entity_type === 'sandbox') refresher.sandbox(frame.entity_id)
    else if (frame.entity_type === 'ticket') refresher.tickets()
  }
  const live = useLive({ event_types: LIFECYCLE_EVENTS }, onFrame, () => {
    // Everything is reloaded, and earlier failed or hanging requests say nothing about the current connection.
    refresher.reset()
    void refetchLists(client)
  })
  usePolledNewest(live.connection === 'live')

  const cards = useMemo(() => {
    // Wait for both lists, so that a sandbox is not shown without its task.
    if (tasks.data === undefined || sandboxes.data === undefined) return NO_CARDS
    return listing({
      tasks: tasks.data.items.values(),
      allTasks: tasks.data.complete,
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
    /** Older pages are still loading. */
    isGrowing: hasBoth && error === null && !(tasks.data.complete && sandboxes.data.complete),
    isRefreshing: tasks.isFetching || sandboxes.isFetching,
    error,
    refresh: () => void refetchLists(client),
  }
}
