import { queryOptions, useMutation, useQuery, useQueryClient, type QueryClient } from '@tanstack/react-query'
import { api } from '../util/paths'
import type {
  Duplicates,
  MessageQueued,
  MessageRecord,
  NewMessage,
  NewTicket,
  SandboxOut,
  TaskEnded,
  TaskOut,
  TicketShown,
} from './contract'
import { get, post, Refused, remove } from './http'

/**
 * Names of what queries hold. What belongs to one sandbox stands behind its name, so that one call refreshes all of it.
 */
export const keys = {
  sandbox: (id: string) => ['sandbox', id] as const,
  sandboxTask: (id: string) => ['sandbox', id, 'task'] as const,
  ticket: (id: string) => ['ticket', id] as const,
  /** Whatever lists tasks, sandboxes or tickets begins so. */
  lists: ['list'] as const,
}

export const sandboxQuery = (id: string) =>
  queryOptions({ queryKey: keys.sandbox(id), queryFn: ({ signal }) => get<SandboxOut>(api.sandbox(id), {}, signal) })

/** The task that a sandbox is for; `null` for one that somebody registered by hand. */
export const sandboxTaskQuery = (id: string) =>
  queryOptions({
    queryKey: keys.sandboxTask(id),
    queryFn: async ({ signal }): Promise<TaskOut | null> => {
      try {
        return await get<TaskOut>(api.sandboxTask(id), {}, signal)
      } catch (error) {
        if (error instanceof Refused && error.status === 404) return null
        throw error
      }
    },
  })

export const ticketQuery = (id: string) =>
  queryOptions({ queryKey: keys.ticket(id), queryFn: ({ signal }) => get<TicketShown>(api.ticket(id), {}, signal) })

export const useSandbox = (id: string) => useQuery(sandboxQuery(id))
export const useSandboxTask = (id: string) => useQuery(sandboxTaskQuery(id))

/** `null` asks for nothing: a task may have no ticket. */
export const useTicket = (id: string | null) => useQuery({ ...ticketQuery(id ?? ''), enabled: id !== null })

/** Everything that the plane knows of one sandbox is asked for again, as far as somebody shows it. */
export function refreshSandbox(queries: QueryClient, id: string) {
  return queries.invalidateQueries({
    queryKey: keys.sandbox(id),
    // A sandbox that was registered by hand has no task and never gets one.
    predicate: ({ queryKey, state }) => !(queryKey[2] === 'task' && state.data === null),
  })
}

export function useCreateTicket() {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (ticket: NewTicket) => post<TicketShown | Duplicates>(api.tickets, ticket),
    onSuccess: () => queries.invalidateQueries({ queryKey: keys.lists }),
  })
}

/** Sends a message. One with an id of its own may be sent again: it is the same message. */
export const sendMessage = (sandboxId: string, message: NewMessage) =>
  post<MessageQueued>(api.messages(sandboxId), message)

/** Takes a message back that no worker has confirmed. The log tells what came of it. */
export function useCancelMessage(sandboxId: string) {
  return useMutation({
    mutationFn: (messageId: string) => post<MessageRecord>(api.cancelMessage(sandboxId, messageId), {}),
  })
}

/** Ends a sandbox. Its log stays. */
export function useStopSandbox() {
  const refresh = useRefresh()
  return useMutation({
    mutationFn: ({ sandboxId, reason }: { sandboxId: string; reason: string }) =>
      remove<SandboxOut>(api.sandbox(sandboxId), { reason }),
    onSettled: refresh,
  })
}

interface TaskAndReason {
  taskId: string
  reason: string
}

/** Gives a task up. It counts as failed, and can be asked for again. */
export function useFailTask() {
  const refresh = useRefresh()
  return useMutation({
    mutationFn: ({ taskId, reason }: TaskAndReason) => post<TaskEnded>(api.failTask(taskId), { reason }),
    onSettled: refresh,
  })
}

/** Calls a task off. */
export function useCancelTask() {
  const refresh = useRefresh()
  return useMutation({
    mutationFn: ({ taskId, reason }: TaskAndReason) => post<TaskEnded>(api.cancelTask(taskId), { reason }),
    onSettled: refresh,
  })
}

/** Asks for a failed or cancelled task again. It gets a new sandbox. */
export function useRetryTask() {
  const refresh = useRefresh()
  return useMutation({
    mutationFn: (taskId: string) => post<TaskOut>(api.retryTask(taskId), {}),
    onSettled: refresh,
  })
}

/** Says whether what came of a task is good enough; `feedback` is what the next try is told. */
export function useJudge(sandboxId: string) {
  const refresh = useRefresh()
  return useMutation({
    mutationFn: (judgement: { taskId: string; passed: boolean; feedback: string }) =>
      post<unknown>(api.judge(sandboxId), {
        task_id: judgement.taskId,
        passed: judgement.passed,
        feedback: judgement.feedback,
      }),
    onSettled: refresh,
  })
}

/** A change to a task is a change to its sandbox, its ticket and every list that shows them. */
function useRefresh() {
  const queries = useQueryClient()
  return () =>
    Promise.all(
      [['sandbox'], ['ticket'], ['task'], keys.lists].map((queryKey) => queries.invalidateQueries({ queryKey })),
    )
}
