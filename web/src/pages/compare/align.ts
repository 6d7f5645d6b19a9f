/** Two corresponding steps. `null` if one run has no counterpart. */
export interface Pair<T> {
  readonly left: T | null
  readonly right: T | null
  readonly match: 'same' | 'different' | 'only left' | 'only right'
}

interface Comparable {
  readonly kind: string
  readonly content: string
}

/** Limit for the comparison table. Longer sections are paired by index. */
const MAX_CELLS = 1_000_000

/**
 * Aligns two lists in order: first identical items, then items of the same kind. Items that occur exactly once in both
 * lists serve as anchors, so that long lists are compared section by section.
 */
export function align<T extends Comparable>(left: readonly T[], right: readonly T[]): Pair<T>[] {
  const pairs: Pair<T>[] = []
  let from = { left: 0, right: 0 }
  for (const anchor of [...anchors(left, right), { left: left.length, right: right.length }]) {
    pairs.push(...between(left.slice(from.left, anchor.left), right.slice(from.right, anchor.right)))
    const both = { left: left[anchor.left], right: right[anchor.right] }
    if (both.left !== undefined && both.right !== undefined) {
      pairs.push({ left: both.left, right: both.right, match: 'same' })
    }
    from = { left: anchor.left + 1, right: anchor.right + 1 }
  }
  return pairs
}

interface Anchor {
  readonly left: number
  readonly right: number
}

/** The longest sequence of positions that ascends in both lists, of content that is unique in each. */
function anchors(left: readonly Comparable[], right: readonly Comparable[]): Anchor[] {
  const positions = uniquePositions(right)
  const common: Anchor[] = []
  for (const [content, position] of uniquePositions(left)) {
    const other = positions.get(content)
    if (other !== undefined) common.push({ left: position, right: other })
  }
  return longestAscending(common)
}

function uniquePositions(list: readonly Comparable[]): Map<string, number> {
  const positions = new Map<string, number>()
  const repeated = new Set<string>()
  list.forEach(({ content }, index) => {
    if (positions.has(content)) repeated.add(content)
    positions.set(content, index)
  })
  for (const content of repeated) positions.delete(content)
  return positions
}

/** Patience sorting: `common` ascends on the left; returns its longest subsequence that also ascends on the right. */
function longestAscending(common: readonly Anchor[]): Anchor[] {
  interface Card {
    readonly anchor: Anchor
    readonly before: Card | undefined
  }
  const piles: Card[] = []
  for (const anchor of common) {
    let low = 0
    let high = piles.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((piles[middle]?.anchor.right ?? 0) < anchor.right) low = middle + 1
      else high = middle
    }
    piles[low] = { anchor, before: piles[low - 1] }
  }
  const ascending: Anchor[] = []
  for (let card = piles.at(-1); card !== undefined; card = card.before) ascending.push(card.anchor)
  return ascending.reverse()
}

/** The best alignment of two short lists: an identical pair scores 3, a pair of the same kind scores 1. */
function between<T extends Comparable>(left: readonly T[], right: readonly T[]): Pair<T>[] {
  if (left.length * right.length > MAX_CELLS) return pairByIndex(left, right)
  const width = right.length + 1
  const best = new Uint32Array((left.length + 1) * width)
  const score = (row: number, column: number) => best[row * width + column] ?? 0
  for (let row = left.length - 1; row >= 0; row -= 1) {
    for (let column = right.length - 1; column >= 0; column -= 1) {
      const pairScore = weight(left[row], right[column])
      best[row * width + column] = Math.max(
        pairScore === 0 ? 0 : pairScore + score(row + 1, column + 1),
        score(row + 1, column),
        score(row, column + 1),
      )
    }
  }
  const pairs: Pair<T>[] = []
  for (let row = 0, column = 0; row < left.length || column < right.length;) {
    const pairScore = weight(left[row], right[column])
    if (pairScore > 0 && score(row, column) === pairScore + score(row + 1, column + 1)) {
      pairs.push(pair(left[row] ?? null, right[column] ?? null))
      row += 1
      column += 1
    } else if (row < left.length && (column >= right.length || score(row, column) === score(row + 1, column))) {
      pairs.push(pair(left[row] ?? null, null))
      row += 1
    } else {
      pairs.push(pair(null, right[column] ?? null))
      column += 1
    }
  }
  return pairs
}

function weight(left: Comparable | undefined, right: Comparable | undefined): 0 | 1 | 3 {
  if (left === undefined || left.kind !== right?.kind) return 0
  return left.content === right.content ? 3 : 1
}

function pairByIndex<T extends Comparable>(left: readonly T[], right: readonly T[]): Pair<T>[] {
  const length = Math.max(left.length, right.length)
  return Array.from({ length }, (_, index) => pair(left[index] ?? null, right[index] ?? null))
}

function pair<T extends Comparable>(left: T | null, right: T | null): Pair<T> {
  const match =
    left === null ? 'only right' : right === null ? 'only left' : left.content === right.content ? 'same' : 'different'
  return { left, right, match }
}
