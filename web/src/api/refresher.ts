import { type Backoff, backoffMs } from '../util/backoff'
import { ApiError } from './http'

/**
 * Reloads items that socket events announce as changed: single items while they are few, the newest page when many
 * change at once, and never more than a few requests per second.
 */
export interface Refresher {
  task(id: string): void
  sandbox(id: string): void
  tickets(): void
  /** Discards pending reads, reads in progress and the failure count. */
  reset(): void
}

export interface Reads {
  task: (id: string) => Promise<unknown>
  sandbox: (id: string) => Promise<unknown>
  /** Returns the ids that it read. */
  newestTasks: () => Promise<readonly string[]>
  newestSandboxes: () => Promise<readonly string[]>
  tickets: () => Promise<unknown>
}

/** Frames about one item arrive in twos and threes, so wait a moment to coalesce them. */
const COALESCE_MS = 150
/** Pause between two rounds. */
const ROUND_MS = 1_000
/** Pause after rounds with failed requests, at least `ROUND_MS`. */
const FAILED_ROUND_BACKOFF: Backoff = { initialMs: 2 * ROUND_MS, maxMs: 30_000 }
/** Concurrent single-item requests per round and kind. */
const CONCURRENCY = 2
/** From this number of items on, one page is cheaper than single requests. */
const PAGE_THRESHOLD = 6

export function createRefresher(reads: Reads, random = () => Math.random()): Refresher {
  const tasks = new Set<string>()
  const sandboxes = new Set<string>()
  let ticketsPending = false
  let timer: ReturnType<typeof setTimeout> | undefined
  /** The round in progress. */
  let reading: symbol | null = null
  let failures = 0

  const hasPending = () => tasks.size > 0 || sandboxes.size > 0 || ticketsPending
  const schedule = (delay: number) => {
    if (timer === undefined && reading === null) timer = setTimeout(() => void round(), delay)
  }
  const round = async () => {
    timer = undefined
    const current = Symbol('round')
    reading = current
    if (ticketsPending) void reads.tickets()
    ticketsPending = false
    const succeeded = await Promise.all([
      readSome(tasks, reads.newestTasks, reads.task),
      readSome(sandboxes, reads.newestSandboxes, reads.sandbox),
    ])
    if (reading !== current) return
    reading = null
    failures = succeeded.includes(false) ? failures + 1 : 0
    if (hasPending()) schedule(failures === 0 ? ROUND_MS : backoffMs(FAILED_ROUND_BACKOFF, failures - 1, random()))
  }
  const add = (pending: Set<string>, id: string) => {
    pending.add(id)
    schedule(COALESCE_MS)
  }
  return {
    task: (id) => add(tasks, id),
    sandbox: (id) => add(sandboxes, id),
    tickets() {
      ticketsPending = true
      schedule(COALESCE_MS)
    },
    reset() {
      clearTimeout(timer)
      timer = undefined
      reading = null
      failures = 0
      ticketsPending = false
      tasks.clear()
      sandboxes.clear()
    },
  }
}

/** Reads some pending items and returns whether the requests succeeded. Items that failed stay pending. */
async function readSome(
  pending: Set<string>,
  readNewest: () => Promise<readonly string[]>,
  readOne: (id: string) => Promise<unknown>,
): Promise<boolean> {
  if (pending.size >= PAGE_THRESHOLD) {
    const ids = take(pending, pending.size)
    try {
      const found = new Set(await readNewest())
      for (const id of ids) if (!found.has(id)) pending.add(id)
    } catch (error) {
      if (isRetryable(error)) for (const id of ids) pending.add(id)
      return false
    }
  }
  // Items too old for the newest page are read one by one.
  const results = await Promise.all(
    take(pending, CONCURRENCY).map(async (id) => {
      try {
        await readOne(id)
        return true
      } catch (error) {
        if (isRetryable(error)) pending.add(id)
        return !isRetryable(error)
      }
    }),
  )
  return !results.includes(false)
}

/** Removes ids before they are read, so that a change during the read makes them pending again. */
function take(pending: Set<string>, max: number): string[] {
  const ids = [...pending].slice(0, max)
  for (const id of ids) pending.delete(id)
  return ids
}

const isRetryable = (error: unknown) => error instanceof ApiError && error.isRetryable
