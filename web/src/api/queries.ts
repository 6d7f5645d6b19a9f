import { queryOptions, useMutation, useQuery, useQueryClient, type QueryClient } from '@tanstack/react-query'
import { api } from '../util/paths'
import type {
  Duplicates,
  MessageQueued,
  MessageRecord,
  NewMessage,
  NewTicket,
  PreviewLink,
  SandboxOut,
  TaskEnded,
  TaskOut,
  TicketDetails,
} from './contract'
import { get, post, ApiError, remove } from './http'

/**
 * Query keys. Everything that belongs to one sandbox shares its prefix, so that one call refreshes all of it.
 */
export const keys = {
  sandbox: (id: string) => ['sandbox', id] as const,
  sandboxTask: (id: string) => ['sandbox', id, 'task'] as const,
  ticket: (id: string) => ['ticket', id] as const,
  /** What the code host knows about the branch of a task. */
  task: (id: string) => ['task', id] as const,
  /** Prefix of all lists of tasks, sandboxes or tickets. */
  lists: ['list'] as const,
}

export const sandboxQuery = (id: string) =>
  queryOptions({ queryKey: keys.sandbox(id), queryFn: ({ signal }) => get<SandboxOut>(api.sandbox(id), {}, signal) })

/** The task of a sandbox; `null` for a sandbox that was registered without one. */
export const sandboxTaskQuery = (id: string) =>
  queryOptions({
    queryKey: keys.sandboxTask(id),
    queryFn: async ({ signal }): Promise<TaskOut | null> => {
      try {
        return await get<TaskOut>(api.sandboxTask(id), {}, signal)
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return null
        throw error
      }
    },
  })

/** The provider's link to a port; `null` if there is none. */
export const previewLinkQuery = (id: string, port: number | null) =>
  queryOptions({
    queryKey: [...keys.sandbox(id), 'preview', port],
    enabled: port !== null,
    queryFn: async ({ signal }): Promise<PreviewLink | null> => {
      try {
        return await get<PreviewLink>(api.previewLink(id, port ?? 0), {}, signal)
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return null
        throw error
      }
    },
  })

export const ticketQuery = (id: string) =>
  queryOptions({ queryKey: keys.ticket(id), queryFn: ({ signal }) => get<TicketDetails>(api.ticket(id), {}, signal) })

export const useSandbox = (id: string) => useQuery(sandboxQuery(id))
export const useSandboxTask = (id: string) => useQuery(sandboxTaskQuery(id))

/** `null` disables the query: a task may have no ticket. */
export const useTicket = (id: string | null) => useQuery({ ...ticketQuery(id ?? ''), enabled: id !== null })

/** Invalidates all queries of one sandbox. */
export function refreshSandbox(queries: QueryClient, id: string) {
  return queries.invalidateQueries({
    queryKey: keys.sandbox(id),
    // A sandbox registered without a task never gets one.
    predicate: ({ queryKey, state }) => !(queryKey[2] === 'task' && state.data === null),
  })
}

export function useCreateTicket() {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (ticket: NewTicket) => post<TicketDetails | Duplicates>(api.tickets, ticket),
    onSuccess: () => queries.invalidateQueries({ queryKey: keys.lists }),
  })
}

/** Sends a message. Idempotent if the message has an id. */
export const sendMessage = (sandboxId: string, message: NewMessage) =>
  post<MessageQueued>(api.messages(sandboxId), message)

/** Sends an undeliverable message again. The log contains the outcome. */
export function useResendMessage(sandboxId: string) {
  return useMutation({
    mutationFn: (messageId: string) => post<MessageRecord>(api.resendMessage(sandboxId, messageId), {}),
  })
}

/** Cancels a message that no worker has confirmed. The log contains the outcome. */
export function useCancelMessage(sandboxId: string) {
  return useMutation({
    mutationFn: (messageId: string) => post<MessageRecord>(api.cancelMessage(sandboxId, messageId), {}),
  })
}

/** Terminates a sandbox and keeps its log. */
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

/** Marks a task as failed. It can be retried. */
export function useFailTask() {
  const refresh = useRefresh()
  return useMutation({
    mutationFn: ({ taskId, reason }: TaskAndReason) => post<TaskEnded>(api.failTask(taskId), { reason }),
    onSettled: refresh,
  })
}

export function useCancelTask() {
  const refresh = useRefresh()
  return useMutation({
    mutationFn: ({ taskId, reason }: TaskAndReason) => post<TaskEnded>(api.cancelTask(taskId), { reason }),
    onSettled: refresh,
  })
}

/** Retries a failed or cancelled task in a new sandbox. */
export function useRetryTask() {
  const refresh = useRefresh()
  return useMutation({
    mutationFn: (taskId: string) => post<TaskOut>(api.retryTask(taskId), {}),
    onSettled: refresh,
  })
}

/** Reviews the result of a task; `feedback` is passed to the next attempt. */
export function useReview(sandboxId: string) {
  const refresh = useRefresh()
  return useMutation({
    mutationFn: (review: { taskId: string; passed: boolean; feedback: string }) =>
      post<unknown>(api.reviewResult(sandboxId), {
        task_id: review.taskId,
        passed: review.passed,
        feedback: review.feedback,
      }),
    onSettled: refresh,
  })
}

/** A change to a task affects its sandbox, its ticket and every list that shows them. */
export function useRefresh() {
  const queries = useQueryClient()
  return () =>
    Promise.all(
      [['sandbox'], ['ticket'], ['task'], keys.lists].map((queryKey) => queries.invalidateQueries({ queryKey })),
    )
}
