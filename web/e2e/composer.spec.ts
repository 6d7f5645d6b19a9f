import { started, text } from './support/events'
import { RunPage } from './support/run-page'
import { expect, script, test } from './support/test'

test('Enter sends, Shift+Enter breaks, and receipts go on to Done as the agent reads it', async ({ page, api }) => {
  const ticket = await api.ticket({ title: 'Talk to it', agent: script('patient') })
  const id = await api.sandboxOf(ticket.id)
  const run = new RunPage(page)
  await run.open(id)
  await expect(run.feed.getByText('I wait until somebody says something.')).toBeVisible()

  await run.message.fill('First line')
  await run.message.press('Shift+Enter')
  await run.message.pressSequentially('second line')
  await expect(run.message).toHaveValue('First line\nsecond line')
  await run.message.press('Enter')
  await expect(run.message).toHaveValue('')
  const said = run.rowWith('second line')
  await expect(said).toContainText('Delivered')

  await run.message.fill('Go on, please.')
  await page.getByRole('button', { name: 'Interrupt' }).click()
  await expect(said).toContainText('Done')
  await expect(run.rowWith('Go on, please.')).toContainText('Done')
  await expect(run.feed.getByText('I have waited for long enough.')).toBeVisible()

  const messages = await api.messages(id)
  expect(messages.map(({ message_type, content, state }) => [message_type, content, state])).toEqual([
    ['interrupt', 'Go on, please.', 'completed'],
    ['user_message', 'First line\nsecond line', 'completed'],
  ])
  await expect(run.status('Completed')).toBeVisible()
  await expect(run.message).toBeDisabled()
})

test('each step of a message is shown when it happens', async ({ page, api }) => {
  const worker = await api.register('A worker that is played')
  await worker.tell(started(), text('Tell me what to do.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await run.message.fill('Use SQLite.')
  await run.message.press('Enter')
  const said = run.rowWith('Use SQLite.')
  await expect(said).toContainText('Queued')
  const [message] = await worker.pull()
  if (message === undefined) throw new Error('The message waits.')
  await expect(said).toContainText('Fetched')
  await worker.confirm(message.id, 'delivered')
  await expect(said).toContainText('Delivered')
  await worker.confirm(message.id, 'started')
  await expect(said).toContainText('Started')
  await worker.confirm(message.id, 'completed')
  await expect(said).toContainText('Done')
  expect(await run.feed.getByText('Use SQLite.').count()).toBe(1)
})

test('a message that could not be sent keeps its text, and a retry sends it once', async ({ page, api }) => {
  const worker = await api.register('A network that breaks')
  await worker.tell(started(), text('Tell me what to do.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await page.route('**/messages', (route) => (route.request().method() === 'POST' ? route.abort() : route.continue()))
  await run.message.fill('Do not lose me.')
  await run.message.press('Enter')
  await expect(run.onTheirWay).toContainText('Not sent')
  await expect(run.onTheirWay).toContainText('Do not lose me.')

  await page.unroute('**/messages')
  // The answer of this one is lost on its way back: whoever sends it again must not say it twice.
  let answered = 0
  await page.route('**/messages', async (route) => {
    if (route.request().method() !== 'POST') return route.continue()
    answered += 1
    if (answered > 1) return route.continue()
    await route.fetch()
    await route.abort()
  })
  const retry = run.onTheirWay.getByRole('button', { name: 'Retry' })
  await retry.click()
  await expect.poll(() => answered).toBe(1)
  // It sends it again by itself after a while, or when asked to.
  await expect(async () => {
    if (await retry.isVisible()) await retry.click({ timeout: 500 })
    await expect(run.onTheirWay).toBeHidden({ timeout: 1_000 })
  }).toPass()
  await expect(run.rowWith('Do not lose me.')).toContainText('Queued')
  expect((await api.messages(worker.id)).map(({ content }) => content)).toEqual(['Do not lose me.'])
})

test('a draft and an unsent message outlive a reload, and what was on its way is sent once', async ({ page, api }) => {
  const worker = await api.register('A reload in between')
  await worker.tell(started(), text('Tell me what to do.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await page.route('**/messages', (route) => (route.request().method() === 'POST' ? route.abort() : route.continue()))
  await run.message.fill('This did not work.')
  await run.message.press('Enter')
  await expect(run.onTheirWay).toContainText('Not sent')
  await page.unroute('**/messages')
  // The plane has this one, and the page goes before it hears so.
  const stored = new Promise<void>((resolve) => {
    void page.route('**/messages', async (route) => {
      await route.fetch()
      resolve()
    })
  })
  await run.message.fill('This was on its way.')
  await run.message.press('Enter')
  await stored
  await run.message.fill('A thought that is not finished')
  await page.unroute('**/messages')
  await page.reload()

  await expect(run.message).toHaveValue('A thought that is not finished')
  await expect(run.rowWith('This was on its way.')).toContainText('Queued')
  await run.onTheirWay.getByRole('button', { name: 'Retry' }).click()
  await expect(run.rowWith('This did not work.')).toContainText('Queued')
  await expect(run.onTheirWay).toBeHidden()
  const sent = (await api.messages(worker.id)).map(({ content }) => content)
  expect(sent.sort()).toEqual(['This did not work.', 'This was on its way.'])
})

test('what no worker has confirmed can be taken back', async ({ page, api }) => {
  const worker = await api.register('Second thoughts')
  await worker.tell(started(), text('Tell me what to do.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await run.message.fill('Delete everything.')
  await run.message.press('Enter')
  const said = run.rowWith('Delete everything.')
  await expect(said).toContainText('Queued')
  await said.hover()
  await said.getByRole('button', { name: 'Take back' }).click()
  await expect(said).toContainText('Cancelled')
  expect((await api.messages(worker.id)).map(({ state }) => state)).toEqual(['cancelled'])
})

test('Stop everything asks once, and then stops the agent', async ({ page, api }) => {
  const ticket = await api.ticket({ title: 'Stop it', agent: script('patient') })
  const id = await api.sandboxOf(ticket.id)
  const run = new RunPage(page)
  await run.open(id)
  await expect(run.feed.getByText('I wait until somebody says something.')).toBeVisible()
  await page.getByRole('button', { name: 'Stop everything' }).click()
  expect(await api.messages(id)).toEqual([])
  await page.getByRole('button', { name: 'Yes, stop everything' }).click()
  await expect.poll(async () => (await api.messages(id)).map(({ message_type }) => message_type)).toEqual(['stop'])
  await expect.poll(async () => (await api.log(id)).map(({ event_type }) => event_type)).toContain('agent.interrupted')
  await api.post(`/tasks/${ticket.task_id ?? ''}/cancel`, {})
})
