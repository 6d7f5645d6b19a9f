import { useQuery, useQueryClient, type QueryClient } from '@tanstack/react-query'
import { useEffect, useMemo } from 'react'
import { api } from '../util/paths'
import type { SandboxOut, TaskList, TaskOut, TicketList } from './contract'
import { retry } from './errors'
import {
  loadPages,
  mergeItems,
  readNewest,
  sandboxList,
  taskList,
  type LoadedList,
  type ListSource,
} from './paged-list'
import { get } from './http'
import { keys } from './queries'
import { createRefresher, type Refresher } from './refresher'

/** Every task, newest first. The first page is shown at once; the other pages load in the background. */
export const useTaskList = () => useLoadedList(taskList)

/** Every sandbox, loaded in the same way. */
export const useSandboxList = () => useLoadedList(sandboxList)

/** Tickets that wait for approval. They have no task yet. */
export const useTicketsToApprove = () => useTickets({ approval_status: 'pending_review', limit: 100 })

export const useRecentTickets = (limit: number) => useTickets({ limit })

/** The newest tasks, which include those of recent tickets. */
export function useRecentTasks() {
  return useQuery({
    queryKey: [...keys.lists, 'tasks'],
    queryFn: async ({ signal }) => (await get<TaskList>(api.tasks, { limit: 50 }, signal)).tasks,
  })
}

/** Reloads the lists after a time without a socket, in which changes may have been missed. */
export async function refetchLists(client: QueryClient) {
  await Promise.all([reload(client, taskList), reload(client, sandboxList), refetchTickets(client)])
}

export const refetchTickets = (client: QueryClient) =>
  client.invalidateQueries({ queryKey: [...keys.lists, 'tickets'] })

const WITHOUT_SOCKET_MS = 5_000
const WITH_SOCKET_MS = 30_000

/**
 * Polls the newest items every few seconds while there is no socket. With a socket it still polls sandboxes, less
 * often: a registered sandbox emits no event until its worker connects.
 */
export function usePolledNewest(isLive: boolean) {
  const client = useQueryClient()
  useQuery({
    queryKey: ['newest', isLive],
    refetchInterval: isLive ? WITH_SOCKET_MS : WITHOUT_SOCKET_MS,
    retry: false,
    queryFn: async () => {
      const lists = isLive ? [] : [readNewest(client, taskList), refetchTickets(client)]
      await Promise.all([readNewest(client, sandboxList), ...lists])
      return Date.now()
    },
  })
}

/** Reloads single tasks and sandboxes, a few at a time, as socket events announce changes. */
export function useRefresher(): Refresher {
  const client = useQueryClient()
  const refresher = useMemo(
    () =>
      createRefresher({
        task: async (id) => mergeItems(client, taskList, [await get<TaskOut>(api.task(id))]),
        sandbox: async (id) => mergeItems(client, sandboxList, [await get<SandboxOut>(api.sandbox(id))]),
        newestTasks: () => readNewest(client, taskList),
        newestSandboxes: () => readNewest(client, sandboxList),
        tickets: () => refetchTickets(client),
      }),
    [client],
  )
  useEffect(() => () => refresher.reset(), [refresher])
  return refresher
}

function useTickets(query: { approval_status?: string; limit: number }) {
  return useQuery({
    queryKey: [...keys.lists, 'tickets', query],
    queryFn: async ({ signal }) => (await get<TicketList>(api.tickets, query, signal)).tickets,
  })
}

function useLoadedList<Item>(source: ListSource<Item>) {
  const client = useQueryClient()
  return useQuery<LoadedList<Item>>({
    queryKey: source.key,
    // Socket events announce changes, and `refetchLists` covers the time without a socket.
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    structuralSharing: false,
    // Report a failure early: the first page blocks the view, and later pages do not.
    retry: (failures, error) => failures < 1 && retry(failures, error),
    queryFn: ({ signal }) => loadPages(client, source, signal),
  })
}

async function reload<Item>(client: QueryClient, source: ListSource<Item>) {
  const isLoadingFirstPage = client.getQueryData(source.key) === undefined
  await client.refetchQueries({ queryKey: source.key, exact: true }, { cancelRefetch: true })
  // The first page may have been read before the socket was subscribed, and it cannot be refetched while it is loading.
  // If this request fails, the query itself retries and reports the error.
  if (!isLoadingFirstPage) return
  await readNewest(client, source).catch(() => client.refetchQueries({ queryKey: source.key, exact: true }))
}
