import type { RunPage } from './run-page'

export interface Movement {
  /** Total movement of the visible rows; downward is positive. */
  total: number
  /** Largest movement within one frame against the scroll direction. */
  back: number
}

/**
 * Scrolls with the wheel and tracks the position of visible rows in every frame until they stop. Rows must move by the
 * scrolled distance and nothing else, whatever is loaded or measured meanwhile.
 */
export async function wheel(run: RunPage, by: number): Promise<Movement> {
  const following = await run.feed.evaluateHandle(async (feed, upward) => {
    // Only visible rows: rows above may move.
    const tops = () => {
      const edge = feed.getBoundingClientRect()
      const found = new Map<string, number>()
      for (const link of feed.querySelectorAll<HTMLAnchorElement>('[data-row] > a')) {
        const row = link.closest('[data-row]')?.getBoundingClientRect()
        if (row !== undefined && row.bottom > edge.top && row.top < edge.bottom) found.set(link.href, row.top)
      }
      return found
    }
    // Rows are rendered and measured in the frames after a jump.
    let before = tops()
    for (let still = 0; still < 3;) {
      await new Promise(requestAnimationFrame)
      const current = tops()
      const rests = current.size > 0 && [...current].every(([href, top]) => before.get(href) === top)
      still = rests ? still + 1 : 0
      before = current
    }
    const ended = new Promise<Movement>((resolve, reject) => {
      const movement = { total: 0, back: 0 }
      let still = 0
      const track = () => {
        const current = tops()
        const common = [...current.keys()].findLast((href) => before.has(href))
        if (common === undefined) {
          reject(new Error('No visible row was the same in two consecutive frames.'))
          return
        }
        const moved = (current.get(common) ?? 0) - (before.get(common) ?? 0)
        movement.total += moved
        movement.back = Math.max(movement.back, upward ? -moved : moved)
        still = moved === 0 ? still + 1 : 0
        before = current
        if (still > 5 && movement.total !== 0) resolve(movement)
        else requestAnimationFrame(track)
      }
      requestAnimationFrame(track)
    })
    return { ended }
  }, by < 0)
  await run.page.mouse.wheel(0, by)
  return following.evaluate(({ ended }) => ended)
}
