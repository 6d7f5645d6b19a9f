import { queryOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { firstText } from '../timeline/read'
import { fromPage } from '../timeline/event'
import { api } from '../util/paths'
import type { EventPage, MergeTask, MergedOut, PullRequestOut, TaskDiff, TaskOut, TicketOut } from './contract'
import { get, post } from './http'
import { keys, ticketQuery, useRefresh } from './queries'

/** How often to ask again while the code host computes something. */
const MERGEABLE_INTERVAL_MS = 5_000
const CHECKS_INTERVAL_MS = 30_000

export const taskDiffQuery = (taskId: string) =>
  queryOptions({
    queryKey: [...keys.task(taskId), 'diff'],
    queryFn: ({ signal }) => get<TaskDiff>(api.taskDiff(taskId), {}, signal),
  })

/** The state of the pull request at the code host. No event announces checks, so it is read again while they run. */
export const pullRequestQuery = (taskId: string) =>
  queryOptions({
    queryKey: [...keys.task(taskId), 'pull-request'],
    queryFn: ({ signal }) => get<PullRequestOut>(api.pullRequest(taskId), {}, signal),
    refetchInterval: ({ state }) => (state.data === undefined ? false : nextRead(state.data)),
  })

export function nextRead(pull: PullRequestOut): number | false {
  if (pull.state !== 'open') return false
  if (pull.mergeable === null) return MERGEABLE_INTERVAL_MS
  return pull.ci_status === 'pending' ? CHECKS_INTERVAL_MS : false
}

/** More than a task has after its merge. */
const NEWEST_EVENTS = 50

/** The commit of the base that contains the work, from the log of the task; `null` if the log does not say it. */
export const mergeCommitQuery = (taskId: string) =>
  queryOptions({
    queryKey: [...keys.task(taskId), 'merge-commit'],
    queryFn: async ({ signal }): Promise<string | null> => {
      const query = { order: 'newest', limit: NEWEST_EVENTS }
      const { events } = await get<EventPage>(api.taskEvents(taskId), query, signal)
      for (const event of events.map(fromPage)) {
        if (event.type === 'task.merged') return firstText(event.data, 'commit')
      }
      return null
    },
  })

export function useOpenPullRequest(taskId: string) {
  const refresh = useRefresh()
  return useMutation({
    mutationFn: () => post<PullRequestOut>(api.pullRequest(taskId), {}),
    onSettled: refresh,
  })
}

/** Lets the agent work on the feedback that is left to a person. */
export function useRequestFeedback(taskId: string) {
  const refresh = useRefresh()
  return useMutation({
    mutationFn: () => post<TaskOut>(api.feedbackRounds(taskId), {}),
    onSettled: refresh,
  })
}

/** Merges the pull request of a task. The branch is deleted afterwards, unless the request says otherwise. */
export function useMergeTask(taskId: string) {
  const queries = useQueryClient()
  const refresh = useRefresh()
  return useMutation({
    mutationFn: (merge: MergeTask) => post<MergedOut>(api.mergeTask(taskId), merge),
    onSuccess: ({ commit }) => queries.setQueryData(mergeCommitQuery(taskId).queryKey, commit),
    // After a refusal too: the code host knows something that the page does not.
    onSettled: refresh,
  })
}

/** How often to read the progress of a merge. Its events are in the log of the ticket, which no page follows. */
const MERGE_INTERVAL_MS = 3_000

/** A ticket, read again while its branches are merged. */
export const mergingTicketQuery = (ticketId: string) =>
  queryOptions({
    ...ticketQuery(ticketId),
    refetchInterval: ({ state }) => (state.data?.merge?.state === 'running' ? MERGE_INTERVAL_MS : false),
  })

/** Starts the merge of all finished branches of a ticket. */
export function useMergeTicket(ticketId: string) {
  const refresh = useRefresh()
  return useMutation({
    mutationFn: (merge: { resolve_conflicts: boolean }) => post<TicketOut>(api.mergeTicket(ticketId), merge),
    onSettled: refresh,
  })
}
