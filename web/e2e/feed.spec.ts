import { fromPage } from '../src/timeline/event'
import { fold } from '../src/timeline/fold'
import type { Api } from './support/api'
import { command, started, text } from './support/events'
import { RunPage } from './support/run-page'
import { expect, script, test } from './support/test'

/** A run of the scripted agent, once it is over. */
async function finished(api: Api, name: string) {
  const ticket = await api.ticket({ title: `Play ${name}`, agent: script(name) })
  if (ticket.task_id === null) throw new Error('A quick ticket has a task at once.')
  const task = await api.untilTask(ticket.task_id, 'completed')
  if (task.sandbox_id === null) throw new Error('A completed task had a sandbox.')
  await api.untilSandbox(task.sandbox_id, 'completed')
  return task.sandbox_id
}

test('the feed shows a whole run, in order, as the log has it', async ({ page, api }) => {
  const id = await finished(api, 'brief')
  const log = await api.log(id)
  const run = new RunPage(page)
  await run.open(id)
  await run.untilLive()

  const rows = await run.everyRow()
  expect(rows.map(({ seq }) => seq)).toEqual(fold(log.map(fromPage)).rows.map(({ seq }) => seq))

  // The same once more, without the console's own folding: what the agent wrote and did is there, once, in order.
  const all = rows.map((row) => row.text).join('\n')
  const words = [
    'A greeting is enough to show every card once.',
    "I'll write a greeting, and look at it.",
    'cat farewell.txt',
    'Find the greeting',
    'cat greeting.txt',
    'It greets in the evening now.',
  ]
  expect(words.map((word) => all.indexOf(word))).not.toContain(-1)
  expect(words.map((word) => all.indexOf(word))).toEqual(words.map((word) => all.indexOf(word)).sort((a, b) => a - b))
  expect(rows.filter((row) => row.text.includes('It greets in the evening now.'))).toHaveLength(1)
})

test('a reload shows the same rows', async ({ page, api }) => {
  const id = await finished(api, 'brief')
  const run = new RunPage(page)
  await run.open(id)
  await run.untilLive()
  const before = await run.everyRow()
  await page.reload()
  await run.untilLive()
  expect(await run.everyRow()).toEqual(before)
})

test('a run appears while it happens, and its badge says by itself that it is completed', async ({ page, api }) => {
  const ticket = await api.ticket({ title: 'Watch it', agent: script('brief') })
  const id = await api.sandboxOf(ticket.id)
  const run = new RunPage(page)
  await run.open(id)
  await expect(run.feed.getByText('It greets in the evening now.')).toBeVisible()
  await expect(run.status).toHaveText('Completed')
})

test('older pages load upward without a jump', async ({ page, api }) => {
  const worker = await api.register('A long run')
  await worker.tell(started(), ...Array.from({ length: 1_500 }, (_, index) => text(`Step ${index + 1}.`)))
  const run = new RunPage(page)
  await run.open(worker.id)
  await expect(run.feed.getByText('Step 1500.')).toBeVisible()

  // Reads upward like a person, and looks at each step where one row in sight is on the screen, before and after.
  await run.feed.hover()
  let furthest = 0
  for (let step = 0; step < 60; step += 1) {
    const moved = await run.feed.evaluate(async (feed) => {
      const frames = async (count: number) => {
        for (let n = 0; n < count; n += 1) await new Promise((resolve) => requestAnimationFrame(resolve))
      }
      const moments = () => [...feed.querySelectorAll<HTMLAnchorElement>('[data-row] > a')]
      const top = (moment: string) => {
        const link = moments().find(({ href }) => href === moment)
        return link?.closest('[data-row]')?.getBoundingClientRect().top ?? null
      }
      const edge = feed.getBoundingClientRect().top
      const moment = moments().find(({ href }) => (top(href) ?? edge - 1) >= edge)?.href
      if (moment === undefined) throw new Error('There is a row in sight.')
      const before = top(moment)
      const scrolled = feed.scrollTop
      feed.scrollTop -= 300
      const by = scrolled - feed.scrollTop
      await frames(2)
      // Pages come meanwhile and rows are measured; nobody scrolls.
      let worst = 0
      for (let n = 0; n < 8; n += 1) {
        const now = top(moment)
        if (before !== null && now !== null) worst = Math.max(worst, Math.abs(now - before - by))
        await frames(1)
      }
      return worst
    })
    furthest = Math.max(furthest, moved)
    if (await page.getByText('Beginning of the run').isVisible()) break
  }
  expect(furthest).toBeLessThanOrEqual(2)
  const rows = await run.everyRow()
  expect(rows.filter((row) => /Step \d+\./.test(row.text))).toHaveLength(1_500)
})

test('who reads further up is not moved, is told how many are new, and gets there with one click', async ({
  page,
  api,
}) => {
  const worker = await api.register('A run with a reader')
  await worker.tell(started(), ...Array.from({ length: 80 }, (_, index) => text(`Earlier ${index + 1}.`)))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await expect(run.feed.getByText('Earlier 80.')).toBeVisible()
  await worker.tell(text('It follows.'))
  await expect(run.feed.getByText('It follows.')).toBeInViewport()

  await run.feed.hover()
  await page.mouse.wheel(0, -1_500)
  await expect.poll(() => run.atBottom()).toBe(false)
  const place = await run.feed.evaluate((feed) => feed.scrollTop)
  await worker.tell(text('First news.'), text('Second news.'), ...command('true', ''))
  const news = page.getByRole('button', { name: '3 new' })
  await expect(news).toBeVisible()
  expect(await run.feed.evaluate((feed) => feed.scrollTop)).toBe(place)

  await news.click()
  await expect(run.feed.getByText('Second news.')).toBeInViewport()
  await expect(news).toBeHidden()
  await worker.tell(text('It follows again.'))
  await expect(run.feed.getByText('It follows again.')).toBeInViewport()
})

test('a tool is one card from its call to its end, and a sign of life is none', async ({ page, api }) => {
  const worker = await api.register('One card for a tool')
  const [call, end] = command('sleep 5', 'awake')
  if (call === undefined || end === undefined) throw new Error('A command has a call and an end.')
  await worker.tell(started(), call)
  const run = new RunPage(page)
  await run.open(worker.id)
  await expect(run.feed.getByText('sleep 5')).toBeVisible()
  const before = await run.rows.count()
  await worker.tell({ event_type: 'agent.heartbeat', event_data: { status: 'working' }, source: 'worker' }, end)
  await expect(run.feed.getByText('awake')).toBeVisible()
  expect(await run.rows.count()).toBe(before)
})
