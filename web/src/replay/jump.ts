/** The next mark of a kind after an event, or the one before it; `null` where there is none. Marks are in order. */
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
