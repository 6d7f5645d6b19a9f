/** Two things beside each other. `null` where one run has nothing that corresponds. */
export interface Pair<T> {
  readonly left: T | null
  readonly right: T | null
  readonly match: 'same' | 'different' | 'only left' | 'only right'
}

interface Comparable {
  readonly kind: string
  readonly content: string
}

/** More comparisons than this at once are not made: what lies between is put side by side as it comes. */
const MOST_CELLS = 1_000_000

/**
 * Puts two lists beside each other, each in its order: what is the same in both, then what is of the same kind. What is
 * there exactly once in both holds the lists together, so that long ones are compared piece by piece.
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

/** The longest row of places, rising in both lists, whose content is there once in each. */
function anchors(left: readonly Comparable[], right: readonly Comparable[]): Anchor[] {
  const places = uniquePlaces(right)
  const common: Anchor[] = []
  for (const [content, place] of uniquePlaces(left)) {
    const other = places.get(content)
    if (other !== undefined) common.push({ left: place, right: other })
  }
  return longestRising(common)
}

function uniquePlaces(list: readonly Comparable[]): Map<string, number> {
  const places = new Map<string, number>()
  const repeated = new Set<string>()
  list.forEach(({ content }, index) => {
    if (places.has(content)) repeated.add(content)
    places.set(content, index)
  })
  for (const content of repeated) places.delete(content)
  return places
}

/** By patience sorting: `common` rises on the left; the longest part of it that rises on the right too. */
function longestRising(common: readonly Anchor[]): Anchor[] {
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
  const rising: Anchor[] = []
  for (let card = piles.at(-1); card !== undefined; card = card.before) rising.push(card.anchor)
  return rising.reverse()
}

/** The best way to lay two short lists beside each other: the same counts for three, the same kind for one. */
function between<T extends Comparable>(left: readonly T[], right: readonly T[]): Pair<T>[] {
  if (left.length * right.length > MOST_CELLS) return sideBySide(left, right)
  const width = right.length + 1
  const best = new Uint32Array((left.length + 1) * width)
  const score = (row: number, column: number) => best[row * width + column] ?? 0
  for (let row = left.length - 1; row >= 0; row -= 1) {
    for (let column = right.length - 1; column >= 0; column -= 1) {
      const together = weight(left[row], right[column])
      best[row * width + column] = Math.max(
        together === 0 ? 0 : together + score(row + 1, column + 1),
        score(row + 1, column),
        score(row, column + 1),
      )
    }
  }
  const pairs: Pair<T>[] = []
  for (let row = 0, column = 0; row < left.length || column < right.length; ) {
    const together = weight(left[row], right[column])
    if (together > 0 && score(row, column) === together + score(row + 1, column + 1)) {
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

function sideBySide<T extends Comparable>(left: readonly T[], right: readonly T[]): Pair<T>[] {
  const length = Math.max(left.length, right.length)
  return Array.from({ length }, (_, index) => pair(left[index] ?? null, right[index] ?? null))
}

function pair<T extends Comparable>(left: T | null, right: T | null): Pair<T> {
  const match =
    left === null ? 'only right' : right === null ? 'only left' : left.content === right.content ? 'same' : 'different'
  return { left, right, match }
}
