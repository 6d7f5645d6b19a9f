/** Maximum number of out-of-order events to keep. Further ones are fetched again instead. */
const MAX_BUFFERED = 5_000

/**
 * Merges events from pages and frames into log order.
 *
 * **Invariant:** the output is the log without gaps or duplicates, from the starting point on, whatever is inserted and
 * in whatever order.
 */
export class ReorderBuffer<T> {
  /** Sequence number of the last event that was released. */
  last: number
  #highest: number
  readonly #buffered = new Map<number, T>()

  constructor(last: number) {
    this.last = last
    this.#highest = last
  }

  /** Inserts an event from a page or a frame, and returns the events that are now in order. */
  insert(seq: number, event: T): T[] {
    if (seq <= this.last) return []
    this.#highest = Math.max(this.#highest, seq)
    // When the buffer is full, it is enough to know that the event exists. The next event in order always fits.
    if (this.#buffered.size < MAX_BUFFERED || seq === this.last + 1) this.#buffered.set(seq, event)
    const ready: T[] = []
    for (;;) {
      const next = this.#buffered.get(this.last + 1)
      if (next === undefined) return ready
      this.#buffered.delete(this.last + 1)
      this.last += 1
      ready.push(next)
    }
  }

  /** Whether an event is missing before the highest known sequence number. */
  get hasGap(): boolean {
    return this.last < this.#highest
  }
}
