import type { RunPage } from './run-page'

export interface Movement {
  /** How far what is read has moved on the screen in all, downward being more than 0. */
  total: number
  /** The furthest that it moved within one frame against the direction of the whole. */
  back: number
}

/**
 * Turns the wheel, and follows from frame to frame where rows are on the screen until nothing moves any more. What a
 * reader sees is right if rows move by what the wheel was turned and by nothing else, whatever is loaded or measured.
 */
export async function wheel(run: RunPage, by: number): Promise<Movement> {
  const following = await run.feed.evaluateHandle((feed, upward) => {
    // Of the rows in sight: what is above them may move as it likes.
    const tops = () => {
      const edge = feed.getBoundingClientRect()
      const found = new Map<string, number>()
      for (const link of feed.querySelectorAll<HTMLAnchorElement>('[data-row] > a')) {
        const row = link.closest('[data-row]')?.getBoundingClientRect()
        if (row !== undefined && row.bottom > edge.top && row.top < edge.bottom) found.set(link.href, row.top)
      }
      return found
    }
    const ended = new Promise<Movement>((resolve, reject) => {
      const movement = { total: 0, back: 0 }
      let before = tops()
      let still = 0
      const look = () => {
        const now = tops()
        const common = [...now.keys()].findLast((moment) => before.has(moment))
        if (common === undefined) {
          reject(new Error('All rows in sight were others from one frame to the next.'))
          return
        }
        const moved = (now.get(common) ?? 0) - (before.get(common) ?? 0)
        movement.total += moved
        movement.back = Math.max(movement.back, upward ? -moved : moved)
        still = moved === 0 ? still + 1 : 0
        before = now
        if (still > 5 && movement.total !== 0) resolve(movement)
        else requestAnimationFrame(look)
      }
      requestAnimationFrame(look)
    })
    return { ended }
  }, by < 0)
  await run.page.mouse.wheel(0, by)
  return following.evaluate(({ ended }) => ended)
}
