import { useQuery, useQueryClient, type QueryClient } from '@tanstack/react-query'
import { useEffect, useMemo } from 'react'
import { api } from '../util/paths'
import type { SandboxOut, TaskList, TaskOut, TicketList } from './contract'
import { retry } from './errors'
import { gather, note, readNewest, sandboxList, taskList, type Gathered, type Listed } from './gathered'
import { get } from './http'
import { keys } from './queries'
import { createRefresher, type Refresher } from './refresher'

/** Every task, newest first; the newest are there at once, and the others follow while somebody reads. */
export const useTaskList = () => useGathered(taskList)

/** Every sandbox, in the same way. */
export const useSandboxList = () => useGathered(sandboxList)

/** Tickets that wait until somebody approves them: they have no task yet. */
export const useTicketsToApprove = () => useTickets({ approval_status: 'pending_review', limit: 100 })

/** What was asked for lately. */
export const useRecentTickets = (limit: number) => useTickets({ limit })

/** The newest tasks: those of recent tickets are among them. */
export function useRecentTasks() {
  return useQuery({
    queryKey: [...keys.lists, 'tasks'],
    queryFn: async ({ signal }) => (await get<TaskList>(api.tasks, { limit: 50 }, signal)).tasks,
  })
}

/** Reads the lists again, after a time in which no socket told of changes. */
export async function rereadLists(client: QueryClient) {
  await Promise.all([reread(client, taskList), reread(client, sandboxList), rereadTickets(client)])
}

export const rereadTickets = (client: QueryClient) =>
  client.invalidateQueries({ queryKey: [...keys.lists, 'tickets'] })

const WITHOUT_SOCKET_MS = 5_000
const WITH_SOCKET_MS = 30_000

/**
 * Looks at what is newest every few seconds while no socket tells of it. With one it still looks at sandboxes, seldom:
 * nothing tells of one that somebody registered until it speaks.
 */
export function usePolledNewest(isLive: boolean) {
  const client = useQueryClient()
  useQuery({
    queryKey: ['newest', isLive],
    refetchInterval: isLive ? WITH_SOCKET_MS : WITHOUT_SOCKET_MS,
    retry: false,
    queryFn: async () => {
      const lists = isLive ? [] : [readNewest(client, taskList), rereadTickets(client)]
      await Promise.all([readNewest(client, sandboxList), ...lists])
      return Date.now()
    },
  })
}

/** Reads single tasks and sandboxes again, a few at a time, as sockets tell of them. */
export function useRefresher(): Refresher {
  const client = useQueryClient()
  const refresher = useMemo(
    () =>
      createRefresher({
        task: async (id) => note(client, taskList, [await get<TaskOut>(api.task(id))]),
        sandbox: async (id) => note(client, sandboxList, [await get<SandboxOut>(api.sandbox(id))]),
        newestTasks: () => readNewest(client, taskList),
        newestSandboxes: () => readNewest(client, sandboxList),
        tickets: () => rereadTickets(client),
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

function useGathered<Item>(listed: Listed<Item>) {
  const client = useQueryClient()
  return useQuery<Gathered<Item>>({
    queryKey: listed.key,
    // The socket says what changed, and `rereadLists` is for when there was none.
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    structuralSharing: false,
    // Whoever waits for the first page wants to know soon; whoever has one can read meanwhile.
    retry: (failures, error) => failures < 1 && retry(failures, error),
    queryFn: ({ signal }) => gather(client, listed, signal),
  })
}

async function reread<Item>(client: QueryClient, listed: Listed<Item>) {
  const isFirstPageOnItsWay = client.getQueryData(listed.key) === undefined
  await client.refetchQueries({ queryKey: listed.key, exact: true }, { cancelRefetch: true })
  // That page may have been read before the socket was there to tell of changes. It cannot be asked for anew while it
  // is on its way. If this fails, the query itself tries again, and says so.
  if (!isFirstPageOnItsWay) return
  await readNewest(client, listed).catch(() => client.refetchQueries({ queryKey: listed.key, exact: true }))
}
