import { fromPage, type LogEvent } from '../timeline/event'
import { type Backoff, backoffMs } from '../util/backoff'
import { api } from '../util/paths'
import type { EventPage } from './contract'
import { ApiError } from './http'
import type { Environment } from './environment'

const NEWEST_PAGE_SIZE = 200
const PAGE_SIZE = 500
/** Concurrent page requests while a complete log is loaded: a log of 50,000 events is a hundred pages. */
const CONCURRENCY = 4
/** One failed request must not abort a long load. */
const MAX_ATTEMPTS = 4
const PAGE_BACKOFF: Backoff = { initialMs: 500, maxMs: 5_000 }

/** The end of a log, ascending. */
export async function readNewest(
  environment: Environment,
  sandboxId: string,
  signal: AbortSignal,
): Promise<LogEvent[]> {
  const page = await read(environment, sandboxId, { order: 'newest', limit: NEWEST_PAGE_SIZE }, signal)
  return page.events.map(fromPage).reverse()
}

/** One page of the events after a sequence number, ascending. */
export async function readAfter(environment: Environment, sandboxId: string, after: number, signal: AbortSignal) {
  const page = await read(environment, sandboxId, { after_seq: after, order: 'oldest', limit: PAGE_SIZE }, signal)
  return { events: page.events.map(fromPage), hasMore: page.has_more }
}

/** One page of the events right before a sequence number, ascending. */
export async function readBefore(environment: Environment, sandboxId: string, before: number, signal: AbortSignal) {
  const page = await read(environment, sandboxId, { before_seq: before, order: 'newest', limit: PAGE_SIZE }, signal)
  const events = page.events.map(fromPage).reverse()
  if (events.at(-1)?.seq !== before - 1) throw incomplete()
  return events
}

/** Marks that a part failed, so the other readers stop. */
const FAILED = -1

/** All events between two sequence numbers, ascending, loaded concurrently. */
export async function readRange(
  environment: Environment,
  sandboxId: string,
  range: { after: number; before: number },
  signal: AbortSignal,
  onProgress: (loaded: number) => void,
): Promise<LogEvent[]> {
  const parts = Math.ceil((range.before - range.after - 1) / PAGE_SIZE)
  const loaded = new Array<LogEvent[]>(parts)
  let next = parts
  let sum = 0
  const reader = async () => {
    while (next > 0) {
      next -= 1
      const part = next
      const after = range.after + part * PAGE_SIZE
      const before = Math.min(after + PAGE_SIZE + 1, range.before)
      const events = await readPart(environment, sandboxId, after, before, signal).catch((error: unknown) => {
        // The other readers stop too: their results would be discarded.
        next = FAILED
        throw error
      })
      if (next === FAILED) return
      loaded[part] = events
      sum += events.length
      onProgress(sum)
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, reader))
  return loaded.flat()
}

/** A page may end early; the remainder of the part is requested again. */
async function readPart(
  environment: Environment,
  sandboxId: string,
  after: number,
  before: number,
  signal: AbortSignal,
) {
  const events: LogEvent[] = []
  for (let last = after; last < before - 1;) {
    const query = { after_seq: last, before_seq: before, order: 'oldest', limit: PAGE_SIZE }
    const page = await withRetries(environment, signal, () => read(environment, sandboxId, query, signal))
    for (const event of page.events) events.push(fromPage(event))
    const end = page.events.at(-1)?.seq
    if (end === undefined || events.length !== end - after) throw incomplete()
    last = end
  }
  return events
}

async function withRetries<T>(environment: Environment, signal: AbortSignal, run: () => Promise<T>): Promise<T> {
  for (let attempts = 1; ; attempts += 1) {
    try {
      return await run()
    } catch (error) {
      if (signal.aborted || attempts === MAX_ATTEMPTS || !(error instanceof ApiError && error.isRetryable)) throw error
      await new Promise<void>((resolve) => {
        environment.later(resolve, backoffMs(PAGE_BACKOFF, attempts - 1, environment.random()))
      })
      signal.throwIfAborted()
    }
  }
}

const read = (
  environment: Environment,
  sandboxId: string,
  query: Record<string, string | number>,
  signal: AbortSignal,
) => environment.get<EventPage>(api.events(sandboxId), query, signal)

/** The control plane guarantees a log without gaps, so a page with a gap is an error. */
const incomplete = () =>
  new ApiError(0, 'invalid_response', 'The control plane returned an incomplete log.', null, null)
