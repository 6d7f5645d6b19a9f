import { type QueryClient, skipToken, useQuery } from '@tanstack/react-query'
import { type LogEvent, fromPage } from '../timeline/event'
import { api } from '../util/paths'
import type { EventPage } from './contract'
import { get } from './http'

/** How much of a run is here. `of` is `null` until the plane has said how long the log is. */
export interface Progress {
  readonly loaded: number
  readonly of: number | null
}

export interface WholeLog {
  readonly events: readonly LogEvent[]
  readonly progress: Progress
  readonly state: 'loading' | 'ready' | 'failed'
  readonly error: unknown
  readonly retry: () => void
}

const NEW_EVENTS_EVERY_MS = 5_000
const NOTHING: readonly LogEvent[] = []
const NO_PROGRESS: Progress = { loaded: 0, of: null }

/**
 * Everything that happened in a sandbox, without a socket: for pages that look at several runs. While `ended` says that
 * the run goes on, it looks for more every few seconds, after what it has.
 */
export function useWholeLog(sandboxId: string | null, ended: (events: readonly LogEvent[]) => boolean): WholeLog {
  const id = sandboxId ?? ''
  const log = useQuery({
    queryKey: keys.log(id),
    queryFn: ({ client, signal }) => readOn(client, id, signal),
    enabled: id !== '',
    staleTime: NEW_EVENTS_EVERY_MS,
    refetchInterval: ({ state }) => (state.data === undefined || ended(state.data) ? false : NEW_EVENTS_EVERY_MS),
    // To compare two long logs field by field would find nothing: `readWhole` keeps what has not changed.
    structuralSharing: false,
  })
  const progress = useQuery<Progress>({ queryKey: keys.progress(id), queryFn: skipToken })
  return {
    events: log.data ?? NOTHING,
    progress: progress.data ?? NO_PROGRESS,
    // What is here stays to be seen when a later look fails.
    state: log.data !== undefined ? 'ready' : log.isError ? 'failed' : 'loading',
    error: log.error,
    retry: () => void log.refetch(),
  }
}

const keys = {
  log: (id: string) => ['whole-log', id] as const,
  progress: (id: string) => ['whole-log', id, 'progress'] as const,
}

async function readOn(client: QueryClient, id: string, signal: AbortSignal): Promise<readonly LogEvent[]> {
  const known = client.getQueryData<readonly LogEvent[]>(keys.log(id)) ?? NOTHING
  return readWhole(id, known, (progress) => client.setQueryData(keys.progress(id), progress), signal)
}

/** The log from its beginning to its end, or from where `known` ends. Answers with `known` itself if nothing is new. */
export async function readWhole(
  sandboxId: string,
  known: readonly LogEvent[],
  onProgress: (progress: Progress) => void,
  signal?: AbortSignal,
): Promise<readonly LogEvent[]> {
  const more: LogEvent[] = []
  let after = known.at(-1)?.seq ?? 0
  for (;;) {
    const page = await get<EventPage>(api.events(sandboxId), { after_seq: after, order: 'oldest', limit: 500 }, signal)
    for (const event of page.events) {
      if (event.seq <= after) continue
      more.push(fromPage(event))
      after = event.seq
    }
    onProgress({ loaded: known.length + more.length, of: page.last_seq })
    // A page may be empty and have more behind it; then only `next_after_seq` leads on.
    after = Math.max(after, page.next_after_seq ?? 0)
    if (!page.has_more) return more.length === 0 ? known : [...known, ...more]
  }
}
