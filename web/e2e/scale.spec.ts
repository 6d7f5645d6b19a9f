import { command, started, text, thinking, turnCompleted, written } from './support/events'
import { framesWhile } from './support/frames'
import { ListPage } from './support/list-page'
import { RunPage } from './support/run-page'
import { expect, test } from './support/test'

const EVENTS = 50_000
const SANDBOXES = 2_000

test('fifty thousand events in one feed scroll smoothly, with few rows in the document', async ({ page, api }) => {
  test.setTimeout(150_000)
  const worker = await api.register('Fifty thousand events')
  const events = [started()]
  for (let turn = 1; events.length < EVENTS; turn += 1) {
    events.push(
      thinking(`Thought ${turn}: what comes next depends on what the last command said.`, turn),
      text(`Step ${turn}.\n\n- one thing\n- another thing, which is a little longer than the first`, turn),
      ...command(`make step-${turn}`, Array.from({ length: turn % 9 }, (_, line) => `line ${line}`).join('\n'), turn % 7 === 0 ? 1 : 0, turn),
      ...written(`src/step-${turn % 200}.ts`, Array.from({ length: turn % 14 }, (_, line) => `const a${line} = ${turn}`), turn),
      turnCompleted(turn, 0.01),
    )
  }
  await worker.tell(...events.slice(0, EVENTS))

  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await run.loadAll()
  await expect(page.getByText('Beginning of the run')).toBeAttached()

  await run.feed.hover()
  let rows = 0
  const frames = await framesWhile(page, async () => {
    for (let step = 0; step < 100; step += 1) {
      await page.mouse.wheel(0, step % 10 === 9 ? 20_000 : 500)
      if (step % 10 === 0) rows = Math.max(rows, await run.rows.count())
    }
  })
  test.info().annotations.push({ type: 'frames', description: JSON.stringify(frames) })
  console.log(`50,000 events: ${JSON.stringify(frames)}, at most ${rows} rows in the document`)
  expect(rows).toBeLessThan(150)
  expect(frames.perSecond).toBeGreaterThanOrEqual(50)
})

test('two thousand sandboxes in one list scroll smoothly, and a search finds one of them', async ({ page, api }) => {
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
  let cards = 0
  const frames = await framesWhile(page, async () => {
    for (let step = 0; step < 80; step += 1) {
      await page.mouse.wheel(0, 400)
      if (step % 10 === 0) cards = Math.max(cards, await list.cards.count())
    }
  })
  console.log(`2,000 sandboxes: ${JSON.stringify(frames)}, at most ${cards} cards in the document`)
  expect(cards).toBeLessThan(150)
  expect(frames.perSecond).toBeGreaterThanOrEqual(50)
  await list.search.fill('one of many 1234')
  await expect(list.cards).toHaveCount(1)
})
