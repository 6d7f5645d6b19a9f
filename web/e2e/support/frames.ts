import type { Page } from '@playwright/test'

export interface Frames {
  /** How many were drawn. */
  count: number
  /** What each of them cost the page's main thread on average, in milliseconds of processor time. */
  cpuMs: number
}

/**
 * Measures what a page draws while something is done to it, in processor time: how many frames a second are drawn
 * depends on what else the machine does, and what a frame costs hardly does.
 */
export async function framesWhile(page: Page, act: () => Promise<void>): Promise<Frames> {
  const devtools = await page.context().newCDPSession(page)
  // The main thread's own clock, which stands still while other processes have the processor.
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' })
  const spentMs = async () => {
    const { metrics } = await devtools.send('Performance.getMetrics')
    const tasks = metrics.find(({ name }) => name === 'TaskDuration')
    if (tasks === undefined) throw new Error('Chromium does not say how long its tasks took.')
    return tasks.value * 1_000
  }
  const counter = await page.evaluateHandle(() => {
    let count = 0
    const draw = () => {
      count += 1
      next = requestAnimationFrame(draw)
    }
    let next = requestAnimationFrame(draw)
    return {
      end: () => {
        cancelAnimationFrame(next)
        return count
      },
    }
  })
  const before = await spentMs()
  await act()
  const spent = (await spentMs()) - before
  const count = await counter.evaluate(({ end }) => end())
  await devtools.detach()
  return { count, cpuMs: Math.round((10 * spent) / count) / 10 }
}
