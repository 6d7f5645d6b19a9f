import type { Locator, Page } from '@playwright/test'
import { command, started, text, thinking, turnCompleted, written } from './support/events'
import { framesWhile } from './support/frames'
import { ListPage } from './support/list-page'
import { RunPage } from './support/run-page'
import { expect, test } from './support/test'

const EVENTS = 50_000
const SANDBOXES = 2_000
const SCROLLING_MS = 4_000
/** Time per frame at fifty frames per second. */
const SMOOTH_MS = 20

test('fifty thousand events scroll smoothly with few rendered rows', async ({ page, api }) => {
  test.setTimeout(150_000)
  const worker = await api.register('Fifty thousand events')
  const events = [started()]
  for (let turn = 1; events.length < EVENTS; turn += 1) {
    events.push(
      thinking(`Thought ${turn}: what comes next depends on what the last command said.`, turn),
      text(`Step ${turn}.\n\n- one thing\n- another thing, which is a little longer than the first`, turn),
      ...command(
        `make step-${turn}`,
        Array.from({ length: turn % 9 }, (_, line) => `line ${line}`).join('\n'),
        turn % 7 === 0 ? 1 : 0,
        turn,
      ),
      ...written(
        `src/step-${turn % 200}.ts`,
        Array.from({ length: turn % 14 }, (_, line) => `const a${line} = ${turn}`),
        turn,
      ),
      turnCompleted(turn, 0.01),
    )
  }
  await worker.emit(...events.slice(0, EVENTS))

  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await run.loadAll()
  await run.feed.press('Home')
  await expect(run.feed.getByText('Step 1.', { exact: true })).toBeInViewport()

  // Scroll down from the beginning, then up from the end.
  await run.feed.hover()
  const down = await scrolled(page, run.feed, run.rows, 350)
  await run.feed.press('End')
  await expect.poll(() => run.atBottom()).toBe(true)
  const up = await scrolled(page, run.feed, run.rows, -350)
  for (const [direction, { frames, elements, pixels }] of Object.entries({ down, up })) {
    console.log(`50,000 events ${direction}: ${pixels} px, ${JSON.stringify(frames)}, ${elements} rows at most`)
    expect(pixels).toBeGreaterThan(10_000)
    expect(elements).toBeLessThan(150)
    expect(frames.cpuMs).toBeLessThanOrEqual(SMOOTH_MS)
  }
})

test('two thousand sandboxes scroll smoothly and can be searched', async ({ page, api }) => {
  test.setTimeout(120_000)
  const names = Array.from({ length: SANDBOXES }, (_, index) => `One of many ${index + 1}`)
  const register = async () => {
    for (let name = names.pop(); name !== undefined; name = names.pop()) await api.register(name)
  }
  await Promise.all(Array.from({ length: 8 }, register))

  const list = new ListPage(page)
  await list.open('?q=one+of+many')
  await expect(list.filter('All')).toContainText('2,000', { timeout: 30_000 })
  await list.cards.first().hover()
  const { frames, elements, pixels } = await scrolled(page, list.scroller, list.cards, 350)
  console.log(`2,000 sandboxes: ${pixels} px, ${JSON.stringify(frames)}, ${elements} cards at most`)
  expect(pixels).toBeGreaterThan(10_000)
  expect(elements).toBeLessThan(150)
  expect(frames.cpuMs).toBeLessThanOrEqual(SMOOTH_MS)
  await list.search.fill('one of many 1234')
  await expect(list.cards).toHaveCount(1)
})

/** Scrolls for some seconds. Returns frame statistics and the maximum number of rendered elements. */
async function scrolled(page: Page, box: Locator, each: Locator, by: number) {
  const top = () => box.evaluate((element) => element.scrollTop)
  const from = await top()
  let elements = 0
  const frames = await framesWhile(page, async () => {
    const end = Date.now() + SCROLLING_MS
    for (let step = 0; Date.now() < end; step += 1) {
      await page.mouse.wheel(0, by)
      if (step % 20 === 0) elements = Math.max(elements, await each.count())
    }
  })
  return { frames, elements, pixels: Math.abs((await top()) - from) }
}
