import { fromPage, type LogEvent } from '../timeline/event'
import { api } from '../util/paths'
import type { EventPage } from './contract'
import { Refused } from './http'
import type { World } from './socket-world'

const NEWEST = 200
const PAGE = 500
/** How many parts of a whole log are asked for at the same time: a log of 50,000 events is a hundred pages. */
const LANES = 4
/** A long load is not given up for one request that failed. */
const TRIES = 4
const FIRST_WAIT_MS = 500

/** The end of a log, ascending. */
export async function readNewest(world: World, sandboxId: string, signal: AbortSignal): Promise<LogEvent[]> {
  const page = await read(world, sandboxId, { order: 'newest', limit: NEWEST }, signal)
  return page.events.map(fromPage).reverse()
}

/** What comes after an event, ascending: as much as a page holds. */
export async function readAfter(world: World, sandboxId: string, after: number, signal: AbortSignal) {
  const page = await read(world, sandboxId, { after_seq: after, order: 'oldest', limit: PAGE }, signal)
  return { events: page.events.map(fromPage), hasMore: page.has_more }
}

/** What comes right before an event, ascending: as much as a page holds. */
export async function readBefore(world: World, sandboxId: string, before: number, signal: AbortSignal) {
  const page = await read(world, sandboxId, { before_seq: before, order: 'newest', limit: PAGE }, signal)
  const events = page.events.map(fromPage).reverse()
  if (events.at(-1)?.seq !== before - 1) throw incomplete()
  return events
}

/** No part is left to read, because one could not be. */
const FAILED = -1

/** Everything between two events, ascending, in several lanes. */
export async function readRange(
  world: World,
  sandboxId: string,
  range: { after: number; before: number },
  signal: AbortSignal,
  onProgress: (loaded: number) => void,
): Promise<LogEvent[]> {
  const parts = Math.ceil((range.before - range.after - 1) / PAGE)
  const loaded = new Array<LogEvent[]>(parts)
  let next = parts
  let sum = 0
  const lane = async () => {
    while (next > 0) {
      next -= 1
      const part = next
      const after = range.after + part * PAGE
      const before = Math.min(after + PAGE + 1, range.before)
      const events = await readPart(world, sandboxId, after, before, signal).catch((error: unknown) => {
        // The other lanes end too: nobody will look at what they read.
        next = FAILED
        throw error
      })
      if (next === FAILED) return
      loaded[part] = events
      sum += events.length
      onProgress(sum)
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  return loaded.flat()
}

/** A page may end early: what is left of the part is asked for again. */
async function readPart(world: World, sandboxId: string, after: number, before: number, signal: AbortSignal) {
  const events: LogEvent[] = []
  for (let last = after; last < before - 1; ) {
    const query = { after_seq: last, before_seq: before, order: 'oldest', limit: PAGE }
    const page = await patiently(world, signal, () => read(world, sandboxId, query, signal))
    for (const event of page.events) events.push(fromPage(event))
    const end = page.events.at(-1)?.seq
    if (end === undefined || events.length !== end - after) throw incomplete()
    last = end
  }
  return events
}

async function patiently<T>(world: World, signal: AbortSignal, run: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await run()
    } catch (error) {
      if (signal.aborted || tries === TRIES || !(error instanceof Refused && error.mayPass)) throw error
      await new Promise<void>((resolve) => {
        world.later(resolve, FIRST_WAIT_MS * 2 ** (tries - 1) * (0.5 + world.random()))
      })
      signal.throwIfAborted()
    }
  }
}

const read = (world: World, sandboxId: string, query: Record<string, string | number>, signal: AbortSignal) =>
  world.get<EventPage>(api.events(sandboxId), query, signal)

/** The plane promises a log without gaps; a page that has one is worse than none. */
const incomplete = () => new Refused(0, 'unreadable', 'The log that came is not whole.', null, null)
