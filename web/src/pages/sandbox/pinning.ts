/** How a list stands. */
export interface Scroll {
  /** How far its top is above the view. */
  readonly top: number
  /** How tall all of it is, and how tall what is seen of it. */
  readonly height: number
  readonly view: number
}

/** Nobody means less than this by being "not at the end". */
const NEAR_PX = 32

export const fromEnd = ({ top, height, view }: Scroll) => height - view - top

/**
 * Whether the newest row is to stay in view, after the list has moved.
 *
 * Only a reader lets go of the end, and only by moving up. Rows that grow, shrink or are added move the list too, and so
 * does the page itself: those moves come with another height. `byReader` is whether a wheel, a finger, a key or the
 * scrollbar was in use just now, since somebody may scroll while rows grow.
 */
export function pinnedAfter(pinned: boolean, before: Scroll, now: Scroll, byReader: boolean): boolean {
  const distance = fromEnd(now)
  if (distance <= 1) return true
  const meant = byReader || (now.height === before.height && now.view === before.view)
  if (!meant) return pinned
  if (now.top < before.top) return false
  return pinned || (now.top > before.top && distance <= NEAR_PX)
}
