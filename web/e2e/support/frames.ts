import type { Page } from '@playwright/test'

export interface Frames {
  count: number
  /** Average CPU time of the main thread per frame. */
  cpuMs: number
}

/**
 * Measures the rendering cost of an action in CPU time per frame. The frame rate depends on the load of the machine; the
 * cost of a frame hardly does.
 */
export async function framesWhile(page: Page, act: () => Promise<void>): Promise<Frames> {
  const devtools = await page.context().newCDPSession(page)
  // The CPU clock of the main thread, which does not advance while other processes run.
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' })
  const spentMs = async () => {
    const { metrics } = await devtools.send('Performance.getMetrics')
    const tasks = metrics.find(({ name }) => name === 'TaskDuration')
    if (tasks === undefined) throw new Error('Chromium did not report TaskDuration.')
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
