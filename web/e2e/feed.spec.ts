import { fromPage } from '../src/timeline/event'
import { fold } from '../src/timeline/fold'
import type { Api } from './support/api'
import { command, started, text } from './support/events'
import { wheel } from './support/movement'
import { RunPage } from './support/run-page'
import { expect, script, test } from './support/test'

/** A completed run of the scripted agent. */
async function finished(api: Api, name: string) {
  const ticket = await api.ticket({ title: `Play ${name}`, agent: script(name) })
  if (ticket.task_id === null) throw new Error('A quick ticket has a task at once.')
  const task = await api.untilTask(ticket.task_id, 'completed')
  if (task.sandbox_id === null) throw new Error('A completed task had a sandbox.')
  await api.untilSandbox(task.sandbox_id, 'completed')
  return task.sandbox_id
}

test('the feed shows a complete run in log order', async ({ page, api }) => {
  const id = await finished(api, 'brief')
  const log = await api.log(id)
  const run = new RunPage(page)
  await run.open(id)
  await run.untilLive()

  const rows = await run.everyRow()
  expect(rows.map(({ seq }) => seq)).toEqual(fold(log.map(fromPage)).rows.map(({ seq }) => seq))

  // Independent of the console's own folding: texts and commands are there once and in order.
  const all = rows.map((row) => row.text).join('\n')
  const texts = [
    'A greeting is enough to show every card once.',
    "I'll write a greeting and check it.",
    'cat missing.txt',
    'Find the greeting',
    'cat greeting.txt',
    'The greeting now says evening.',
  ]
  const positions = texts.map((each) => all.indexOf(each))
  expect(positions).not.toContain(-1)
  expect(positions).toEqual(positions.toSorted((a, b) => a - b))
  expect(rows.filter((row) => row.text.includes('The greeting now says evening.'))).toHaveLength(1)
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

test('a run is shown live, and its status badge updates', async ({ page, api }) => {
  const ticket = await api.ticket({ title: 'Watch it', agent: script('brief') })
  const id = await api.sandboxOf(ticket.id)
  const run = new RunPage(page)
  await run.open(id)
  await expect(run.feed.getByText('The greeting now says evening.')).toBeVisible()
  await expect(run.status('Completed')).toBeVisible()
})

test('older pages load without moving visible rows', async ({ page, api }) => {
  const worker = await api.register('A long run')
  // Lists are taller than estimated from their length, so rows above are corrected when they are measured.
  const step = (index: number) => text(`Step ${index + 1}.${'\n\n- more'.repeat(index % 5)}`)
  await worker.emit(started(), ...Array.from({ length: 1_500 }, (_, index) => step(index)))
  const run = new RunPage(page)
  await run.open(worker.id)
  await expect(run.feed.getByText('Step 1500.')).toBeVisible()

  await run.feed.hover()
  await wheel(run, -250)
  // Scroll to where the next page is requested, and past it.
  await run.feed.evaluate((feed) => feed.scrollTo({ top: 4_000 }))
  const pages: string[] = []
  page.on('response', (response) => {
    if (response.url().includes('before_seq=')) pages.push(response.url())
  })
  for (let step = 0; step < 30; step += 1) {
    const { total, back } = await wheel(run, -250)
    expect(Math.abs(total - 250), `scrolled by 250, but rows moved by ${total}`).toBeLessThanOrEqual(2)
    expect(back).toBeLessThanOrEqual(2)
  }
  expect(pages).not.toHaveLength(0)

  await run.toBeginning()
  await expect(run.feed.getByText('Step 1.', { exact: true })).toBeVisible()
  await expect(run.rows.first()).toHaveAttribute('aria-setsize', '1501')
})

test('a reader further up is not moved and can jump to new rows', async ({ page, api }) => {
  const worker = await api.register('A run with a reader')
  await worker.emit(started(), ...Array.from({ length: 80 }, (_, index) => text(`Earlier ${index + 1}.`)))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await expect(run.feed.getByText('Earlier 80.')).toBeVisible()
  await worker.emit(text('It follows.'))
  await expect(run.feed.getByText('It follows.')).toBeInViewport()

  await run.feed.hover()
  await page.mouse.wheel(0, -1_500)
  await expect.poll(() => run.atBottom()).toBe(false)
  const position = await run.feed.evaluate((feed) => feed.scrollTop)
  await worker.emit(text('First new row.'), text('Second new row.'), ...command('true', ''))
  const newRows = page.getByRole('button', { name: '3 new' })
  await expect(newRows).toBeVisible()
  expect(await run.feed.evaluate((feed) => feed.scrollTop)).toBe(position)

  await newRows.click()
  await expect(run.feed.getByText('Second new row.')).toBeInViewport()
  await expect(newRows).toBeHidden()
  await worker.emit(text('It follows again.'))
  await expect(run.feed.getByText('It follows again.')).toBeInViewport()
})

test('a tool is one card, and a heartbeat has none', async ({ page, api }) => {
  const worker = await api.register('One card for a tool')
  const [call, end] = command('sleep 5', 'awake')
  if (call === undefined || end === undefined) throw new Error('A command has a call and a completion.')
  await worker.emit(started(), call)
  const run = new RunPage(page)
  await run.open(worker.id)
  await expect(run.feed.getByText('sleep 5')).toBeVisible()
  const before = await run.rows.count()
  await worker.emit({ event_type: 'agent.heartbeat', event_data: { status: 'working' }, source: 'worker' }, end)
  await expect(run.feed.getByText('awake')).toBeVisible()
  expect(await run.rows.count()).toBe(before)
})
