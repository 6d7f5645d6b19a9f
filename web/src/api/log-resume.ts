/** How many events that came too early are kept. More are fetched again instead. */
const MAX_EARLY = 5_000

/**
 * Puts pages and frames together.
 *
 * **Invariant:** what comes out is the log without a gap and without a repeat, from where the reader began, whatever
 * goes in and in whatever order.
 */
export class Resume<T> {
  /** The number of the last event that came out. */
  last: number
  #highest: number
  readonly #early = new Map<number, T>()

  constructor(last: number) {
    this.last = last
    this.#highest = last
  }

  /** Takes an event in, from a page or a frame; gives out those that are next in line. */
  take(seq: number, event: T): T[] {
    if (seq <= this.last) return []
    this.#highest = Math.max(this.#highest, seq)
    // Far ahead of what can be kept it is enough to know that it exists. The next in line always has room.
    if (this.#early.size < MAX_EARLY || seq === this.last + 1) this.#early.set(seq, event)
    const ready: T[] = []
    for (;;) {
      const next = this.#early.get(this.last + 1)
      if (next === undefined) return ready
      this.#early.delete(this.last + 1)
      this.last += 1
      ready.push(next)
    }
  }

  /** Whether something is missing before what is known to exist. */
  get hasGap(): boolean {
    return this.last < this.#highest
  }
}
