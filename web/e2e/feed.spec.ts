import { fromPage } from '../src/timeline/event'
import { fold } from '../src/timeline/fold'
import type { Api } from './support/api'
import { command, started, text } from './support/events'
import { wheel } from './support/movement'
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
  await expect(run.status('Completed')).toBeVisible()
})

test('older pages load upward without a jump', async ({ page, api }) => {
  const worker = await api.register('A long run')
  // Lists are taller than anybody would guess from their length: what is above is measured when it comes into sight.
  const step = (index: number) => text(`Step ${index + 1}.${'\n\n- more'.repeat(index % 5)}`)
  await worker.tell(started(), ...Array.from({ length: 1_500 }, (_, index) => step(index)))
  const run = new RunPage(page)
  await run.open(worker.id)
  await expect(run.feed.getByText('Step 1500.')).toBeVisible()

  await run.feed.hover()
  await wheel(run, -250)
  // To where the next page is asked for, and over it, as a person reads.
  await run.feed.evaluate((feed) => feed.scrollTo({ top: 4_000 }))
  const pages: string[] = []
  page.on('response', (response) => {
    if (response.url().includes('before_seq=')) pages.push(response.url())
  })
  for (let turned = 0; turned < 30; turned += 1) {
    const { total, back } = await wheel(run, -250)
    expect(Math.abs(total - 250), `the wheel was turned by 250, and rows moved by ${total}`).toBeLessThanOrEqual(2)
    expect(back).toBeLessThanOrEqual(2)
  }
  expect(pages).not.toHaveLength(0)

  await run.toBeginning()
  await expect(run.feed.getByText('Step 1.', { exact: true })).toBeVisible()
  await expect(run.rows.first()).toHaveAttribute('aria-setsize', '1501')
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
