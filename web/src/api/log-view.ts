import type { LogEvent } from '../timeline/event'
import { empty, extend, fold, type Timeline } from '../timeline/fold'
import { advance, begin, type Run } from '../timeline/run'
import type { Connection } from './live'
import type { Writing } from './log-partial'

/** One sandbox's log, as far as it is loaded, and what follows from it. A new object for each change. */
export interface LogView {
  /** Ascending, without a gap. */
  readonly events: readonly LogEvent[]
  readonly timeline: Timeline
  readonly run: Run
  /** Numbers of the first and the last event that are loaded; 0 where there is none. */
  readonly first: number
  readonly last: number
  readonly hasOlder: boolean
  readonly loadingOlder: boolean
  /** Why older events could not be loaded, until they are asked for again. */
  readonly olderError: unknown
  /** Everything from the first event on is loaded. */
  readonly whole: boolean
  /** How far `loadAll` is. */
  readonly progress: { readonly loaded: number; readonly of: number } | null
  /** What the agent is writing at this moment. */
  readonly partial: Writing | null
  readonly heartbeatAt: string | null
  readonly connection: Connection
  readonly detail: string | null
  /** `failed` only while nothing could be shown at all. */
  readonly state: 'loading' | 'ready' | 'failed'
  readonly error: unknown
}

export const nothing: LogView = {
  events: [],
  timeline: empty,
  run: begin,
  first: 0,
  last: 0,
  hasOlder: false,
  loadingOlder: false,
  olderError: null,
  whole: false,
  progress: null,
  partial: null,
  heartbeatAt: null,
  connection: 'connecting',
  detail: null,
  state: 'loading',
  error: null,
}

/** These events and no others. */
export function folded(events: readonly LogEvent[]) {
  return { ...bounds(events), events, timeline: fold(events), run: advance(begin, events) }
}

/** A view's events, and those that come right after them. */
export function extended(view: LogView, added: readonly LogEvent[]) {
  const events = view.events.concat(added)
  return { ...bounds(events), events, timeline: extend(view.timeline, added), run: advance(view.run, added) }
}

function bounds(events: readonly LogEvent[]) {
  const first = events[0]?.seq ?? 0
  return { first, last: events.at(-1)?.seq ?? 0, hasOlder: first > 1, whole: first <= 1 }
}
