import { randomUUID } from 'node:crypto'
import { RunPage } from './support/run-page'
import { address, expect, script, test } from './support/test'
import { CommandPage } from './support/command-page'

test('a ticket opens its own sandbox while others start', async ({ page, api }) => {
  const mine = `Mine ${randomUUID()}`
  const command = new CommandPage(page)
  await command.open()
  await command.chooseAgent(script('waiting'))
  await command.prompt.fill(`${mine}\nwith a second line`)
  const others = Promise.all(
    Array.from({ length: 4 }, (_, index) =>
      api.ticket({ title: `Other ${index} ${randomUUID()}`, agent: script('waiting') }),
    ),
  )
  await command.prompt.press('Enter')
  await page.waitForURL(/\/sandbox\//)
  const ticket = await api.ticketWith(mine)
  expect(address(page)).toBe(`/sandbox/${await api.sandboxOf(ticket.id)}`)
  await expect(new RunPage(page).feed.getByText('Ready for instructions.')).toBeVisible()
  expect(ticket.description).toBe(`${mine}\nwith a second line`)
  for (const each of [ticket, ...(await others)]) await api.cancel(each)
})

test('a queued ticket shows its status across a reload and starts when a slot is free', async ({ page, api }) => {
  const project = `busy-${randomUUID().slice(0, 8)}`
  const first = await api.ticket({ title: `Holds the slot ${project}`, project_id: project, agent: script('waiting') })
  await api.sandboxOf(first.id)
  const command = new CommandPage(page)
  await command.open()
  await command.chooseAgent(script('brief'))
  await command.chooseProject(project)
  const mine = `Waits ${randomUUID()}`
  await command.prompt.fill(mine)
  await command.prompt.press('Enter')
  await expect(page).toHaveURL(/\/command\?ticket=/)
  await expect(page.getByText(/waiting for a free slot/i)).toBeVisible()
  await page.reload()
  await expect(page.getByText(/waiting for a free slot/i)).toBeVisible()
  await api.cancel(first)
  await page.waitForURL(/\/sandbox\//)
  expect(address(page)).toBe(`/sandbox/${await api.sandboxOf((await api.ticketWith(mine)).id)}`)
})

test('repositories and branches are offered, and a folder is opened by path', async ({ page, repository }) => {
  await repository.git('branch', 'release/next')
  const command = new CommandPage(page)
  await command.open()
  const field = page.getByRole('combobox', { name: 'Repository' })
  // The folder of temporary files is not among the allowed ones.
  await field.fill('/no-such-folder/')
  await expect(page.getByText('No repository with this name.')).toBeVisible()
  await field.fill(repository.path)
  await field.press('Escape')
  const base = page.getByRole('combobox', { name: 'Base branch' })
  await base.click()
  await expect(page.getByRole('option', { name: /main.*default/ })).toBeVisible()
  await base.fill('next')
  await expect(page.getByRole('listbox').getByRole('option')).toHaveCount(1)
  await base.press('ArrowDown')
  await base.press('Enter')
  await expect(base).toHaveValue('release/next')
  await expect(page.getByRole('listbox')).toHaveCount(0)
})

test('a waiting ticket can be cancelled', async ({ page, api }) => {
  const project = `busy-${randomUUID().slice(0, 8)}`
  const first = await api.ticket({ title: `Holds the slot ${project}`, project_id: project, agent: script('waiting') })
  await api.sandboxOf(first.id)
  const waiting = await api.ticket({ title: `Waits in ${project}`, project_id: project, agent: script('brief') })
  await page.goto(`/command?ticket=${waiting.id}`)
  await page.getByRole('button', { name: 'Cancel' }).click()
  await expect(page.getByText(/cancelled/i).first()).toBeVisible()
  await expect.poll(async () => (await api.task(waiting.task_id ?? '')).status).toBe('cancelled')
  await api.cancel(first)
})

test('a duplicate ticket is reported and can be created anyway', async ({ page, api }) => {
  const text = `Count the words of ${randomUUID()}`
  const first = await api.ticket({ title: text, description: text, agent: script('waiting') })
  const command = new CommandPage(page)
  await command.open()
  await command.chooseAgent(script('brief'))
  await command.prompt.fill(text)
  await command.prompt.press('Enter')
  const anyway = page.getByRole('button', { name: 'Create anyway' })
  await expect(anyway).toBeVisible()
  await expect(command.prompt).toHaveValue(text)
  await anyway.click()
  await page.waitForURL(/\/sandbox\//)
  expect(address(page)).not.toBe(`/sandbox/${await api.sandboxOf(first.id)}`)
  await api.cancel(first)
})

test('a prompt is kept when the response is lost, and a retry creates one ticket', async ({ page, api }) => {
  const mine = `Once ${randomUUID()}`
  const command = new CommandPage(page)
  await command.open()
  await command.chooseAgent(script('brief'))
  // The control plane stores the ticket, and the response is lost.
  let lost = false
  await page.route('**/api/v1/tickets', async (route) => {
    if (route.request().method() !== 'POST' || lost) return route.continue()
    lost = true
    await route.fetch()
    await route.abort()
  })
  await command.prompt.fill(mine)
  await command.prompt.press('Enter')
  await expect(page.getByText(/cannot reach/i)).toBeVisible()
  await expect(command.prompt).toHaveValue(mine)
  await command.prompt.press('Enter')
  await page.waitForURL(/\/sandbox\//)
  expect(await api.ticketsWith(mine)).toHaveLength(1)
})

test('prompt, tabs and messages work with the keyboard', async ({ page, api }) => {
  const mine = `By keyboard ${randomUUID()}`
  const command = new CommandPage(page)
  await command.open()
  await command.chooseAgent(script('waiting'))
  await page.reload()
  await expect(command.prompt).toBeFocused()
  await page.keyboard.type(mine)
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/sandbox\//)
  const run = new RunPage(page)
  await expect(run.feed.getByText('Ready for instructions.')).toBeVisible()

  await reach(page, 'tab', /Events/)
  await page.keyboard.press('ArrowRight')
  await expect(run.tab(/Files/)).toBeFocused()
  await page.keyboard.press('Enter')
  await expect(run.tab(/Files/)).toHaveAttribute('aria-selected', 'true')
  await page.keyboard.press('ArrowLeft')
  await expect(run.tab(/Events/)).toBeFocused()
  await page.keyboard.press('Enter')
  await expect(run.tab(/Events/)).toHaveAttribute('aria-selected', 'true')
  await reach(page, 'textbox', /message/i)
  await page.keyboard.type('Typed without a mouse.')
  await page.keyboard.press('Enter')
  await expect(run.rowWith('Typed without a mouse.')).toContainText('Delivered')
  await api.cancel(await api.ticketWith(mine))
})

/** Presses Tab until the element is focused. */
async function reach(page: import('@playwright/test').Page, role: 'tab' | 'textbox', name: RegExp) {
  const wanted = page.getByRole(role, { name })
  for (let presses = 0; presses < 60; presses += 1) {
    if (await wanted.evaluate((element) => element === document.activeElement)) return
    await page.keyboard.press('Tab')
  }
  throw new Error(`Pressing Tab sixty times did not reach the ${role} ${String(name)}.`)
}
