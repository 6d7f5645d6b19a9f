import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useMemo, useSyncExternalStore } from 'react'
import { hasTrait } from '../timeline/event-traits'
import { followLog, type LogView } from './log'
import { keys, refreshSandbox, useSandboxTask } from './queries'

export interface Log extends LogView {
  readonly loadOlder: () => void
  /** Loads the complete run; `progress` shows how far it is. */
  readonly loadAll: () => void
  readonly retry: () => void
}

/**
 * Follows a sandbox: its log and, on the same socket, its task and ticket. Refetches their queries when an event changes
 * them, so that no badge is stale.
 */
export function useLog(sandboxId: string): Log {
  const queries = useQueryClient()
  const follower = useMemo(() => {
    const refresh = () => void refreshSandbox(queries, sandboxId)
    return followLog(sandboxId, {
      onEvents: (events) => {
        if (events.some(({ type }) => hasTrait(type, 'changes_sandbox'))) refresh()
      },
      onOthers: (frames) => {
        refresh()
        for (const { entity_type, entity_id } of frames) {
          if (entity_type === 'ticket') void queries.invalidateQueries({ queryKey: keys.ticket(entity_id) })
        }
      },
      onRefresh: refresh,
    })
  }, [queries, sandboxId])
  const view = useSyncExternalStore(follower.subscribe, follower.view)
  const task = useSandboxTask(sandboxId).data
  const taskId = task?.id
  const ticketId = task?.ticket_id ?? undefined
  useEffect(() => {
    follower.watch([taskId, ticketId].filter((id) => id !== undefined))
  }, [follower, taskId, ticketId])
  return useMemo(
    () => ({ ...view, loadOlder: follower.loadOlder, loadAll: follower.loadAll, retry: follower.retry }),
    [view, follower],
  )
}
