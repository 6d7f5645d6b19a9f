/** The next mark of a kind before or after an event; `null` if there is none. Marks must be in order. */
export function jump<Kind extends string>(
  marks: readonly { readonly seq: number; readonly kind: Kind }[],
  kind: Kind,
  seq: number,
  direction: 'before' | 'after',
): number | null {
  const ofKind = (mark: { readonly kind: Kind }) => mark.kind === kind
  const mark =
    direction === 'after'
      ? marks.find((each) => each.seq > seq && ofKind(each))
      : marks.findLast((each) => each.seq < seq && ofKind(each))
  return mark?.seq ?? null
}
