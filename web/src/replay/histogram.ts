import { type Clock, offsetOf } from './clock'

/** The histogram under the scrubber: events per kind and column. The number of columns does not depend on the log. */
export interface Bins<Kind extends string> {
  readonly columns: number
  readonly counts: ReadonlyMap<Kind, Uint32Array>
}

/** `marks` refer to events by sequence number; `first` is that of the first event. */
export function bins<Kind extends string>(
  marks: readonly { readonly seq: number; readonly kind: Kind }[],
  clock: Clock,
  first: number,
  columns: number,
): Bins<Kind> {
  const counts = new Map<Kind, Uint32Array>()
  for (const mark of marks) {
    let row = counts.get(mark.kind)
    if (row === undefined) counts.set(mark.kind, (row = new Uint32Array(columns)))
    const share = clock.totalMs === 0 ? 0 : offsetOf(clock, mark.seq - first) / clock.totalMs
    const column = Math.min(columns - 1, Math.floor(share * columns))
    row[column] = (row[column] ?? 0) + 1
  }
  return { columns, counts }
}

/** Bars as one SVG path in a box of `columns` by 1, so that each kind is a single element. */
export function barsPath(counts: Uint32Array): string {
  const max = counts.reduce((greatest, value) => Math.max(greatest, value), 1)
  let path = ''
  counts.forEach((value, column) => {
    if (value === 0) return
    // A single event must be visible next to many, so bars have a minimum height.
    const height = 0.4 + 0.6 * (Math.log2(1 + value) / Math.log2(1 + max))
    path += `M${column} 1V${(1 - height).toFixed(2)}h1V1z`
  })
  return path
}
