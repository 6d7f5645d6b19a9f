import type { LogEvent } from '../timeline/event'
import { type Timeline, empty, extend } from '../timeline/fold'
import { type Run, advance, emptyRun } from '../timeline/run'

/** The state of a run right after an event. */
export interface Moment {
  /** Number of events up to this moment. */
  readonly length: number
  readonly timeline: Timeline
  readonly run: Run
}

/**
 * The run as of its first `length` events. Fast for random access: it continues from the nearest earlier checkpoint or
 * from the last result. `events` is a log from its beginning and may grow between calls.
 */
export function momentAt(events: readonly LogEvent[], length: number): Moment {
  const wanted = Math.min(Math.max(0, length), events.length)
  const first = events[0]
  if (first === undefined || wanted === 0) return beginning
  const history = historyOf(first)
  const moment = advanceTo(events, nearest(events, history, wanted), wanted)
  history.last = moment
  return moment
}

const beginning: Moment = { length: 0, timeline: empty, run: emptyRun }

/** Small enough that folding one interval takes less than a frame, large enough to limit the memory for checkpoints. */
const CHECKPOINT_INTERVAL = 400

interface History {
  /** After 0, 400, 800, … events. */
  readonly checkpoints: Moment[]
  last: Moment
}

/** Logs that start with the same event are the same log, possibly at different lengths. */
const histories = new WeakMap<LogEvent, History>()

function historyOf(first: LogEvent): History {
  const known = histories.get(first)
  if (known !== undefined) return known
  const history: History = { checkpoints: [beginning], last: beginning }
  histories.set(first, history)
  return history
}

/** The latest known moment that is not after the wanted one. Creates missing checkpoints on the way. */
function nearest(events: readonly LogEvent[], { checkpoints, last }: History, wanted: number): Moment {
  const index = Math.floor(wanted / CHECKPOINT_INTERVAL)
  let moment = checkpoints[Math.min(index, checkpoints.length - 1)] ?? beginning
  while (checkpoints.length <= index) {
    moment = advanceTo(events, moment, checkpoints.length * CHECKPOINT_INTERVAL)
    checkpoints.push(moment)
  }
  return last.length <= wanted && last.length > moment.length ? last : moment
}

function advanceTo(events: readonly LogEvent[], from: Moment, length: number): Moment {
  if (from.length === length) return from
  const more = events.slice(from.length, length)
  return { length, timeline: extend(from.timeline, more), run: advance(from.run, more) }
}
