import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useMemo, useSyncExternalStore } from 'react'
import { hasTrait } from '../timeline/event-traits'
import { followLog, type LogView } from './log'
import { keys, refreshSandbox, sandboxTaskQuery, useSandboxTask } from './queries'

export interface Log extends LogView {
  readonly loadOlder: () => void
  /** Loads the complete run; `progress` shows how far it is. */
  readonly loadAll: () => void
  readonly retry: () => void
}

/**
 * Follows a sandbox: its log and, on the same socket, its task and ticket. Refetches their queries, and those about the
 * task's branch, when an event changes them, so that no badge is stale.
 */
export function useLog(sandboxId: string): Log {
  const queries = useQueryClient()
  const follower = useMemo(() => {
    const refresh = () => void refreshSandbox(queries, sandboxId)
    const taskId = () => queries.getQueryData(sandboxTaskQuery(sandboxId).queryKey)?.id
    const refreshBranch = (id = taskId()) => {
      if (id !== undefined) void queries.invalidateQueries({ queryKey: keys.task(id) })
    }
    return followLog(sandboxId, {
      onEvents: (events) => {
        if (events.some(({ type }) => hasTrait(type, 'changes_sandbox'))) refresh()
        if (events.some(({ type }) => type === 'workspace.pushed')) refreshBranch()
      },
      onOthers: (frames) => {
        refresh()
        for (const { entity_type, entity_id } of frames) {
          if (entity_type === 'ticket') void queries.invalidateQueries({ queryKey: keys.ticket(entity_id) })
        }
        // A pull request was opened or merged, or an attempt may have changed the branch. Events of tasks are few.
        const tasks = frames.filter(({ entity_type }) => entity_type === 'task')
        for (const id of new Set(tasks.map(({ entity_id }) => entity_id))) refreshBranch(id)
      },
      onRefresh: () => {
        refresh()
        refreshBranch()
      },
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
