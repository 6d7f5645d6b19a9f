import { type Clock, offsetOf } from './clock'

/** What is drawn under the scrubber: how much of each kind happened in each column. However long the log, as many columns. */
export interface Bins<Kind extends string> {
  readonly columns: number
  readonly counts: ReadonlyMap<Kind, Uint32Array>
}

/** `marks` name events by their number in the log, which begins with `first`. */
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

/** Bars as one SVG path in a box of `columns` by 1: one element for a kind, however many marks. */
export function barsPath(counts: Uint32Array): string {
  const most = counts.reduce((greatest, value) => Math.max(greatest, value), 1)
  let path = ''
  counts.forEach((value, column) => {
    if (value === 0) return
    // One is seen as well as many: a bar begins at two fifths of the height.
    const height = 0.4 + 0.6 * (Math.log2(1 + value) / Math.log2(1 + most))
    path += `M${column} 1V${(1 - height).toFixed(2)}h1V1z`
  })
  return path
}
