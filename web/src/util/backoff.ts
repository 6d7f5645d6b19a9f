/** Exponential backoff with jitter, for everything that is retried. The same as in `shared/domain/src/backoff.rs`. */
export interface Backoff {
  /** Longest delay after the first attempt. */
  readonly initialMs: number
  readonly maxMs: number
}

/** Keeps the power of two finite. */
const MAX_DOUBLINGS = 30

/**
 * The delay after attempt number `attempt`, counted from 0: from half to all of the time, so that attempts that failed
 * together are not repeated together. `jitter` is a random number from 0 to 1.
 */
export function backoffMs({ initialMs, maxMs }: Backoff, attempt: number, jitter: number): number {
  const full = Math.min(initialMs * 2 ** Math.min(attempt, MAX_DOUBLINGS), maxMs)
  return full * (0.5 + jitter / 2)
}
