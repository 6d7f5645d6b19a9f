/** Scroll position and size of a list. */
export interface Scroll {
  readonly top: number
  /** Height of the content and of the viewport. */
  readonly height: number
  readonly view: number
}

/** Positions closer to the end than this count as at the end. */
const NEAR_PX = 32

export const fromEnd = ({ top, height, view }: Scroll) => height - view - top

/**
 * Whether the list stays pinned to the newest row after it scrolled.
 *
 * Only the user unpins it, and only by scrolling up. Rows that grow, shrink or are added also scroll the list, but these
 * scrolls change the height. `byUser` is whether wheel, touch, key or scrollbar input was just used, since the user may
 * scroll while rows grow.
 */
export function pinnedAfter(pinned: boolean, before: Scroll, now: Scroll, byUser: boolean): boolean {
  const distance = fromEnd(now)
  if (distance <= 1) return true
  const intended = byUser || (now.height === before.height && now.view === before.view)
  if (!intended) return pinned
  if (now.top < before.top) return false
  return pinned || (now.top > before.top && distance <= NEAR_PX)
}
