import type { LogEvent } from '../timeline/event'
import { type Timeline, empty, extend } from '../timeline/fold'
import { type Run, advance, begin } from '../timeline/run'

/** What was to be seen of a run when an event had just happened. */
export interface Moment {
  /** How many events had happened. */
  readonly length: number
  readonly timeline: Timeline
  readonly run: Run
}

/**
 * The run as of its first `length` events, fast wherever one jumps: it goes on from the nearest checkpoint before.
 * Checkpoints lie a thousand events apart, and a hundred apart where somebody looks at the moment; more would hold a
 * list of rows each for nothing. `events` is a log from its beginning, and may grow between calls.
 */
export function momentAt(events: readonly LogEvent[], length: number): Moment {
  const wanted = Math.min(Math.max(0, length), events.length)
  const first = events[0]
  if (first === undefined || wanted === 0) return beginning
  const history = historyOf(first)
  const moment = onward(events, nearest(events, history, wanted), wanted)
  history.last = moment
  return moment
}

const beginning: Moment = { length: 0, timeline: empty, run: begin }

const FAR = 1_000
const NEAR = 100

interface History {
  /** After 0, 1,000, 2,000, … events. */
  readonly far: Moment[]
  /** Those between two of them: where somebody looks. */
  near: { readonly segment: number; readonly moments: Moment[] }
  last: Moment
}

/** Two logs that begin with the same event are the same log, one perhaps longer. */
const histories = new WeakMap<LogEvent, History>()

function historyOf(first: LogEvent): History {
  const known = histories.get(first)
  if (known !== undefined) return known
  const history: History = { far: [beginning], near: { segment: 0, moments: [beginning] }, last: beginning }
  histories.set(first, history)
  return history
}

/** The latest moment that is known and not after the wanted one; makes the checkpoints that are missing on the way. */
function nearest(events: readonly LogEvent[], history: History, wanted: number): Moment {
  if (history.last.length <= wanted && wanted - history.last.length < NEAR) return history.last
  const segment = Math.floor(wanted / FAR)
  const far = reach(events, history.far, segment, 0, FAR)
  if (history.near.segment !== segment) history.near = { segment, moments: [far] }
  return reach(events, history.near.moments, Math.floor((wanted - far.length) / NEAR), far.length, NEAR)
}

function reach(events: readonly LogEvent[], moments: Moment[], index: number, from: number, step: number): Moment {
  let moment = moments[Math.min(index, moments.length - 1)] ?? beginning
  while (moments.length <= index) {
    moment = onward(events, moment, from + moments.length * step)
    moments.push(moment)
  }
  return moment
}

function onward(events: readonly LogEvent[], from: Moment, length: number): Moment {
  if (from.length === length) return from
  const more = events.slice(from.length, length)
  return { length, timeline: extend(from.timeline, more), run: advance(from.run, more) }
}
