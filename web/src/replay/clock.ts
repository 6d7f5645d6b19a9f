/**
 * The time of a replay. A run is shown on a line of milliseconds; each event has its place there, its *offset*. Where
 * silences are shortened, a gap counts for at most `LONGEST_SILENCE_MS`, so that an hour of waiting takes two seconds.
 *
 * Events are known here by their index in the log, 0 for the first.
 */
export interface Clock {
  /** Where each event is: never falling. */
  readonly offsets: Float64Array
  /** The offset of the last event. */
  readonly totalMs: number
  /** How much silence was left out. */
  readonly skippedMs: number
}

export const LONGEST_SILENCE_MS = 2_000

export const SPEEDS = [1, 2, 5, 10, 50] as const
export type Speed = (typeof SPEEDS)[number]

export function clock(events: readonly { readonly at: string }[], skipSilences: boolean): Clock {
  const offsets = new Float64Array(events.length)
  let offset = 0
  let skippedMs = 0
  let before: number | null = null
  events.forEach((event, index) => {
    const parsed = Date.parse(event.at)
    // Clocks of planes can be set back; a log's order is what counts.
    const now: number = Number.isNaN(parsed) ? (before ?? 0) : Math.max(parsed, before ?? parsed)
    const gap = now - (before ?? now)
    const counted = skipSilences ? Math.min(gap, LONGEST_SILENCE_MS) : gap
    offset += counted
    skippedMs += gap - counted
    offsets[index] = offset
    before = now
  })
  return { offsets, totalMs: offset, skippedMs }
}

/** Where an event is on the line. */
export function offsetOf(clock: Clock, index: number): number {
  return clock.offsets[Math.min(Math.max(index, 0), clock.offsets.length - 1)] ?? 0
}

/** The last event that has happened at this offset; the first one if none has. */
export function indexAt(clock: Clock, offset: number): number {
  let low = 0
  let high = clock.offsets.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((clock.offsets[middle] ?? 0) <= offset) low = middle + 1
    else high = middle
  }
  return Math.max(0, low - 1)
}

/** Where a replay is that was at `from` and has played for so long. */
export function played(clock: Clock, from: number, elapsedMs: number, speed: number): number {
  return Math.min(clock.totalMs, from + Math.max(0, elapsedMs) * speed)
}
