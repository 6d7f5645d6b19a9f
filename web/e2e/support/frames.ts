import type { Page } from '@playwright/test'

export interface Frames {
  /** How many were drawn. */
  count: number
  /** All of them over all of the time. */
  perSecond: number
  /** Times between two frames, in milliseconds. */
  p50: number
  p95: number
  p99: number
}

/** Measures what a page draws while something is done to it. */
export async function framesWhile(page: Page, act: () => Promise<void>): Promise<Frames> {
  const recorder = await page.evaluateHandle(() => {
    const times: number[] = []
    const note = (at: number) => {
      times.push(at)
      next = requestAnimationFrame(note)
    }
    let next = requestAnimationFrame(note)
    return {
      end: () => {
        cancelAnimationFrame(next)
        return times
      },
    }
  })
  await act()
  const times = await recorder.evaluate(({ end }) => end())
  const gaps = times.slice(1).map((at, index) => at - (times[index] ?? at))
  const elapsed = (times.at(-1) ?? 0) - (times[0] ?? 0)
  gaps.sort((one, other) => one - other)
  const at = (share: number) => Math.round((gaps[Math.floor(gaps.length * share)] ?? Number.NaN) * 10) / 10
  return { count: gaps.length, perSecond: Math.round((gaps.length * 1_000) / elapsed), p50: at(0.5), p95: at(0.95), p99: at(0.99) }
}
