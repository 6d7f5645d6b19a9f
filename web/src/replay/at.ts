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
 * The run as of its first `length` events, fast wherever one jumps: it goes on from the nearest checkpoint before, or
 * from where somebody looked last. `events` is a log from its beginning, and may grow between calls.
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

/** So many events are folded well within a frame. A checkpoint holds a list of rows, so there are not more of them. */
const STEP = 400

interface History {
  /** After 0, 400, 800, … events. */
  readonly checkpoints: Moment[]
  last: Moment
}

/** Two logs that begin with the same event are the same log, one perhaps longer. */
const histories = new WeakMap<LogEvent, History>()

function historyOf(first: LogEvent): History {
  const known = histories.get(first)
  if (known !== undefined) return known
  const history: History = { checkpoints: [beginning], last: beginning }
  histories.set(first, history)
  return history
}

/** The latest moment that is known and not after the wanted one; makes the checkpoints that are missing on the way. */
function nearest(events: readonly LogEvent[], { checkpoints, last }: History, wanted: number): Moment {
  const place = Math.floor(wanted / STEP)
  let moment = checkpoints[Math.min(place, checkpoints.length - 1)] ?? beginning
  while (checkpoints.length <= place) {
    moment = onward(events, moment, checkpoints.length * STEP)
    checkpoints.push(moment)
  }
  return last.length <= wanted && last.length > moment.length ? last : moment
}

function onward(events: readonly LogEvent[], from: Moment, length: number): Moment {
  if (from.length === length) return from
  const more = events.slice(from.length, length)
  return { length, timeline: extend(from.timeline, more), run: advance(from.run, more) }
}
