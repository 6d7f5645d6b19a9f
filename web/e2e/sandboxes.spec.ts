import { randomUUID } from 'node:crypto'
import { started, text } from './support/events'
import { ListPage } from './support/list-page'
import { address, expect, script, test } from './support/test'

test('filters, counts, search and URL agree', async ({ page, api }) => {
  const mark = `mark-${randomUUID().slice(0, 8)}`
  const running = await api.ticket({ title: `Running ${mark}`, agent: script('waiting') })
  const completed = await api.ticket({ title: `Completed ${mark}`, agent: script('brief') })
  const failed = await api.ticket({ title: `Failed ${mark}`, agent: script('waiting') })
  await api.untilTask(failed.task_id ?? '', 'running')
  await api.post(`/tasks/${failed.task_id ?? ''}/fail`, { reason: 'failed by a test' })
  await api.untilTask(completed.task_id ?? '', 'completed')
  await api.untilTask(running.task_id ?? '', 'running')

  const list = new ListPage(page)
  await list.open()
  await list.search.fill(mark.toUpperCase())
  await expect(list.cards).toHaveCount(3)
  await expect(page).toHaveURL(new RegExp(`q=${mark.toUpperCase()}`))
  await expect(list.filter('All')).toContainText('3')
  for (const status of ['Running', 'Completed', 'Failed']) await expect(list.filter(status)).toContainText('1')
  for (const status of ['Validating', 'Awaiting', 'Pending']) await expect(list.filter(status)).toContainText('0')

  await list.filter('Failed').click()
  await expect(list.cards).toHaveCount(1)
  await expect(list.card(`Failed ${mark}`)).toContainText('failed by a test')
  const link = address(page)
  expect(link).toContain('status=failed')

  await page.goto(link)
  await expect(list.cards).toHaveCount(1)
  await expect(list.search).toHaveValue(mark.toUpperCase())
  await list.search.fill(`no match ${randomUUID()}`)
  await expect(list.cards).toHaveCount(0)
  await page.getByRole('button', { name: 'Clear filters' }).click()
  await expect(list.search).toHaveValue('')

  const sandbox = (await api.task(completed.task_id ?? '')).sandbox_id ?? ''
  await list.search.fill(sandbox)
  await expect(list.cards).toHaveCount(1)
  await list.card(`Completed ${mark}`).getByRole('link').first().click()
  await expect(page).toHaveURL(new RegExp(`/sandbox/${sandbox}`))
  await api.cancel(running)
})

test('marking as failed asks for confirmation and offers a retry', async ({ page, api }) => {
  const mark = `mark-${randomUUID().slice(0, 8)}`
  const ticket = await api.ticket({ title: `Unwanted ${mark}`, agent: script('waiting') })
  const task = ticket.task_id ?? ''
  await api.untilTask(task, 'running')
  const list = new ListPage(page)
  await list.open(`?q=${mark}`)
  const card = list.card(mark)
  await expect(card).toContainText('Running')
  await card.click({ button: 'right' })
  await page.getByRole('menuitem', { name: 'Mark as failed' }).click()
  await page
    .getByRole('alertdialog')
    .getByRole('button', { name: /mark as failed/i })
    .click()
  await expect(card).toContainText('Failed')
  expect((await api.task(task)).status).toBe('failed')
  await page.getByRole('button', { name: 'Retry', exact: true }).click()
  await api.untilTask(task, 'running')
  // The earlier attempt has its own sandbox and stays in the list.
  await expect(card).toHaveCount(2)
  await expect(card.first()).toContainText('Running')
  await expect(card.last()).toContainText('Earlier attempt')
  await api.cancel(ticket)
  await expect(card.first()).toContainText('Cancelled')
})

test('a task can be stopped from the menu of its card', async ({ page, api }) => {
  const mark = `mark-${randomUUID().slice(0, 8)}`
  const ticket = await api.ticket({ title: `Stop it ${mark}`, agent: script('waiting') })
  await api.untilTask(ticket.task_id ?? '', 'running')
  const list = new ListPage(page)
  await list.open(`?q=${mark}`)
  await list.card(mark).getByRole('button', { name: 'Actions for' }).click()
  await page.getByRole('menuitem', { name: 'Stop' }).click()
  await page.getByRole('alertdialog').getByRole('button', { name: /stop/i }).click()
  await expect(list.card(mark)).toContainText('Cancelled')
  await expect.poll(async () => (await api.task(ticket.task_id ?? '')).status).toBe('cancelled')
})

test('the list updates live', async ({ page, api }) => {
  const mark = `mark-${randomUUID().slice(0, 8)}`
  const list = new ListPage(page)
  await list.open()
  await list.untilLoaded()
  const ticket = await api.ticket({ title: `Appears ${mark}`, agent: script('waiting') })
  await expect(list.cards.first()).toContainText(mark)
  await expect(list.card(mark)).toContainText('Running')
  await api.cancel(ticket)
  await expect(list.card(mark)).toContainText('Cancelled')
  const worker = await api.register(`By hand ${mark}`)
  await worker.emit(started(), text('Hello.'))
  await expect(list.card(`By hand ${mark}`)).toContainText('Running')
})

test('a list that failed to load shows an error and a retry', async ({ page }) => {
  await page.route('**/api/v1/tasks*', (route) =>
    route.fulfill({ status: 500, contentType: 'application/problem+json', body: problem('internal') }),
  )
  const list = new ListPage(page)
  await list.open()
  const retry = page.getByRole('button', { name: 'Try again' })
  await expect(retry).toBeVisible()
  await page.unroute('**/api/v1/tasks*')
  // It also polls, which may succeed first.
  await expect(async () => {
    if (await retry.isVisible()) await retry.click({ timeout: 500 })
    await expect(retry).toBeHidden({ timeout: 1_000 })
  }).toPass()
  await list.untilLoaded()
})

const problem = (code: string) =>
  JSON.stringify({
    type: `urn:sunaba:problem:${code}`,
    title: 'Internal Server Error',
    status: 500,
    code,
    detail: 'Internal error.',
  })
