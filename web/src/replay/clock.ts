/**
 * The time axis of a replay in milliseconds; each event has an *offset* on it. If idle gaps are skipped, a gap counts for
 * at most `MAX_GAP_MS`, so that an hour of waiting takes two seconds.
 *
 * Events are identified by their index in the log, starting at 0.
 */
export interface Clock {
  /** Offset of each event, never decreasing. */
  readonly offsets: Float64Array
  /** Offset of the last event. */
  readonly totalMs: number
  /** Total idle time that was skipped. */
  readonly skippedMs: number
}

export const MAX_GAP_MS = 2_000

export const SPEEDS = [1, 2, 5, 10, 50] as const
export type Speed = (typeof SPEEDS)[number]

export function clock(events: readonly { readonly at: string }[], skipGaps: boolean): Clock {
  const offsets = new Float64Array(events.length)
  let offset = 0
  let skippedMs = 0
  let before: number | null = null
  events.forEach((event, index) => {
    const parsed = Date.parse(event.at)
    // A server clock can be set back; the order of the log is authoritative.
    const now: number = Number.isNaN(parsed) ? (before ?? 0) : Math.max(parsed, before ?? parsed)
    const gap = now - (before ?? now)
    const counted = skipGaps ? Math.min(gap, MAX_GAP_MS) : gap
    offset += counted
    skippedMs += gap - counted
    offsets[index] = offset
    before = now
  })
  return { offsets, totalMs: offset, skippedMs }
}

export function offsetOf(clock: Clock, index: number): number {
  return clock.offsets[Math.min(Math.max(index, 0), clock.offsets.length - 1)] ?? 0
}

/** The last event at or before this offset, or the first event. */
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

/** The offset after playing for `elapsedMs` from `from`. */
export function played(clock: Clock, from: number, elapsedMs: number, speed: number): number {
  return Math.min(clock.totalMs, from + Math.max(0, elapsedMs) * speed)
}
