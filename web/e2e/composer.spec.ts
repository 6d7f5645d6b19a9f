import { started, text } from './support/events'
import { RunPage } from './support/run-page'
import { expect, script, test } from './support/test'

test('Enter sends a message whose receipts progress to Done', async ({ page, api }) => {
  const ticket = await api.ticket({ title: 'Send messages', agent: script('waiting') })
  const id = await api.sandboxOf(ticket.id)
  const run = new RunPage(page)
  await run.open(id)
  await expect(run.feed.getByText('Ready for instructions.')).toBeVisible()

  await run.message.fill('First line')
  await run.message.press('Shift+Enter')
  await run.message.pressSequentially('second line')
  await expect(run.message).toHaveValue('First line\nsecond line')
  await run.message.press('Enter')
  await expect(run.message).toHaveValue('')
  const row = run.rowWith('second line')
  await expect(row).toContainText('Delivered')

  await run.message.fill('Go on, please.')
  await page.getByRole('button', { name: 'Interrupt' }).click()
  await expect(row).toContainText('Done')
  await expect(run.rowWith('Go on, please.')).toContainText('Done')
  await expect(run.feed.getByText('Finished waiting.')).toBeVisible()

  const messages = await api.messages(id)
  expect(messages.map(({ message_type, content, state }) => [message_type, content, state])).toEqual([
    ['interrupt', 'Go on, please.', 'completed'],
    ['user_message', 'First line\nsecond line', 'completed'],
  ])
  await expect(run.status('Completed')).toBeVisible()
  await expect(run.message).toBeDisabled()
})

test('delivery states of a message are shown as they change', async ({ page, api }) => {
  const worker = await api.register('A simulated worker')
  await worker.emit(started(), text('Tell me what to do.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await run.message.fill('Use SQLite.')
  await run.message.press('Enter')
  const row = run.rowWith('Use SQLite.')
  await expect(row).toContainText('Queued')
  const [message] = await worker.pull()
  if (message === undefined) throw new Error('No message is queued.')
  await expect(row).toContainText('Fetched')
  await worker.confirm(message.id, 'delivered')
  await expect(row).toContainText('Delivered')
  await worker.confirm(message.id, 'started')
  await expect(row).toContainText('Started')
  await worker.confirm(message.id, 'completed')
  await expect(row).toContainText('Done')
  expect(await run.feed.getByText('Use SQLite.').count()).toBe(1)
})

test('a failed message keeps its text, and a retry sends it once', async ({ page, api }) => {
  const worker = await api.register('A network that breaks')
  await worker.emit(started(), text('Tell me what to do.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await page.route('**/messages', (route) => (route.request().method() === 'POST' ? route.abort() : route.continue()))
  await run.message.fill('Do not lose me.')
  await run.message.press('Enter')
  await expect(run.pendingMessages).toContainText('Not sent')
  await expect(run.pendingMessages).toContainText('Do not lose me.')

  await page.unroute('**/messages')
  // The response of this request is lost, so the message is sent again and must not be duplicated.
  let attempts = 0
  await page.route('**/messages', async (route) => {
    if (route.request().method() !== 'POST') return route.continue()
    attempts += 1
    if (attempts > 1) return route.continue()
    await route.fetch()
    await route.abort()
  })
  const retry = run.pendingMessages.getByRole('button', { name: 'Retry' })
  await retry.click()
  await expect.poll(() => attempts).toBe(1)
  // It is retried automatically, or by the button.
  await expect(async () => {
    if (await retry.isVisible()) await retry.click({ timeout: 500 })
    await expect(run.pendingMessages).toBeHidden({ timeout: 1_000 })
  }).toPass()
  await expect(run.rowWith('Do not lose me.')).toContainText('Queued')
  expect((await api.messages(worker.id)).map(({ content }) => content)).toEqual(['Do not lose me.'])
})

test('drafts and unsent messages survive a reload, and pending ones are sent once', async ({ page, api }) => {
  const worker = await api.register('A reload in between')
  await worker.emit(started(), text('Tell me what to do.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await page.route('**/messages', (route) => (route.request().method() === 'POST' ? route.abort() : route.continue()))
  await run.message.fill('This failed.')
  await run.message.press('Enter')
  await expect(run.pendingMessages).toContainText('Not sent')
  await page.unroute('**/messages')
  // The control plane stores this message, and the page is closed before the response arrives.
  const stored = new Promise<void>((resolve) => {
    void page.route('**/messages', async (route) => {
      await route.fetch()
      resolve()
    })
  })
  await run.message.fill('This was pending.')
  await run.message.press('Enter')
  await stored
  await run.message.fill('An unfinished draft')
  await page.unroute('**/messages')
  await page.reload()

  await expect(run.message).toHaveValue('An unfinished draft')
  await expect(run.rowWith('This was pending.')).toContainText('Queued')
  await run.pendingMessages.getByRole('button', { name: 'Retry' }).click()
  await expect(run.rowWith('This failed.')).toContainText('Queued')
  await expect(run.pendingMessages).toBeHidden()
  const sent = (await api.messages(worker.id)).map(({ content }) => content)
  expect(sent.sort()).toEqual(['This failed.', 'This was pending.'])
})

test('a message can be cancelled until a worker confirms it', async ({ page, api }) => {
  const worker = await api.register('Second thoughts')
  await worker.emit(started(), text('Tell me what to do.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await run.message.fill('Delete everything.')
  await run.message.press('Enter')
  const row = run.rowWith('Delete everything.')
  await expect(row).toContainText('Queued')
  await row.hover()
  await row.getByRole('button', { name: 'Cancel message' }).click()
  await expect(row).toContainText('Cancelled')
  expect((await api.messages(worker.id)).map(({ state }) => state)).toEqual(['cancelled'])
})

test('an undeliverable message can be sent again, until its sandbox ends', async ({ page, api }) => {
  const worker = await api.register('A worker that never confirms')
  await worker.emit(started(), text('Tell me what to do.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  for (const message of ['Use SQLite.', 'Use Postgres.']) {
    await run.message.fill(message)
    await run.message.press('Enter')
    await expect(run.rowWith(message)).toContainText('Queued')
  }
  for (let delivery = 1; delivery <= 10; delivery += 1) {
    expect(await worker.pull({ visibility: 1 })).toHaveLength(2)
  }
  expect(await worker.pull({ wait: 2 })).toHaveLength(0)

  const [first, second] = [run.rowWith('Use SQLite.'), run.rowWith('Use Postgres.')]
  await expect(first).toContainText('the worker took it 10 times and never confirmed it')
  await first.getByRole('button', { name: 'Send again' }).click()
  await expect(first).toContainText('Queued again')
  await expect(first.getByRole('button', { name: 'Send again' })).toBeHidden()
  expect(await worker.pull()).toMatchObject([{ content: 'Use SQLite.' }])

  await expect(second.getByRole('button', { name: 'Send again' })).toBeVisible()
  await api.terminate(worker.id)
  await expect(second.getByRole('button', { name: 'Send again' })).toBeHidden()
  await expect(second).toContainText('Undeliverable')
})

test('Stop everything asks for confirmation and stops the agent', async ({ page, api }) => {
  const ticket = await api.ticket({ title: 'Stop it', agent: script('waiting') })
  const id = await api.sandboxOf(ticket.id)
  const run = new RunPage(page)
  await run.open(id)
  await expect(run.feed.getByText('Ready for instructions.')).toBeVisible()
  await page.getByRole('button', { name: 'Stop everything', exact: true }).click()
  expect(await api.messages(id)).toEqual([])
  await page.getByRole('button', { name: 'Stop everything now' }).click()
  await expect.poll(async () => (await api.messages(id)).map(({ message_type }) => message_type)).toEqual(['stop'])
  await expect.poll(async () => (await api.log(id)).map(({ event_type }) => event_type)).toContain('agent.interrupted')
  await api.post(`/tasks/${ticket.task_id ?? ''}/cancel`, {})
})
