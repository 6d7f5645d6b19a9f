import { type QueryClient, skipToken, useQuery } from '@tanstack/react-query'
import { type LogEvent, fromPage } from '../timeline/event'
import { api } from '../util/paths'
import type { EventPage } from './contract'
import { get } from './http'

/** How much of a run is loaded. `of` is `null` until the length of the log is known. */
export interface Progress {
  readonly loaded: number
  readonly of: number | null
}

export interface FullLog {
  readonly events: readonly LogEvent[]
  readonly progress: Progress
  readonly state: 'loading' | 'ready' | 'failed'
  readonly error: unknown
  readonly retry: () => void
}

const POLL_MS = 5_000
const NO_EVENTS: readonly LogEvent[] = []
const NO_PROGRESS: Progress = { loaded: 0, of: null }

/**
 * The complete log of a sandbox, without a socket, for pages that show several runs. Polls for new events every few
 * seconds until `ended` returns true.
 */
export function useFullLog(sandboxId: string | null, ended: (events: readonly LogEvent[]) => boolean): FullLog {
  const id = sandboxId ?? ''
  const log = useQuery({
    queryKey: keys.log(id),
    queryFn: ({ client, signal }) => readNew(client, id, signal),
    enabled: id !== '',
    staleTime: POLL_MS,
    refetchInterval: ({ state }) => (state.data === undefined || ended(state.data) ? false : POLL_MS),
    // Comparing two long logs field by field would be wasted work: `readFullLog` reuses unchanged events.
    structuralSharing: false,
  })
  const progress = useQuery<Progress>({ queryKey: keys.progress(id), queryFn: skipToken })
  return {
    events: log.data ?? NO_EVENTS,
    progress: progress.data ?? NO_PROGRESS,
    // Loaded events stay visible when a later poll fails.
    state: log.data !== undefined ? 'ready' : log.isError ? 'failed' : 'loading',
    error: log.error,
    retry: () => void log.refetch(),
  }
}

const keys = {
  log: (id: string) => ['full-log', id] as const,
  progress: (id: string) => ['full-log', id, 'progress'] as const,
}

async function readNew(client: QueryClient, id: string, signal: AbortSignal): Promise<readonly LogEvent[]> {
  const known = client.getQueryData<readonly LogEvent[]>(keys.log(id)) ?? NO_EVENTS
  return readFullLog(id, known, (progress) => client.setQueryData(keys.progress(id), progress), signal)
}

/** Reads the log from the end of `known` on. Returns `known` itself if there are no new events. */
export async function readFullLog(
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
    // A page may be empty although more pages follow; then only `next_after_seq` advances.
    after = Math.max(after, page.next_after_seq ?? 0)
    if (!page.has_more) return more.length === 0 ? known : [...known, ...more]
  }
}
