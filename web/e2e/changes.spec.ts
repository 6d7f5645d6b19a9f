import { branchShowcase } from './support/repository'
import { RunPage } from './support/run-page'
import { expect, test } from './support/test'

test('the changes of a branch are shown and merged into its base', async ({ page, api, repository }) => {
  const id = await branchShowcase(api, repository)
  const branch = (await api.sandboxTask(id)).branch?.name ?? ''
  const run = new RunPage(page)
  await run.open(id)
  const header = page.getByRole('main').locator('header')
  await expect(header).toContainText(branch)
  // A repository of this machine has no page for a pull request.
  await header.getByRole('link', { name: 'Pull request #1' }).click()
  await expect(run.tab('Changes')).toHaveAttribute('aria-selected', 'true')
  await expect(page.getByRole('region', { name: 'Branch' })).toContainText('ahead')
  const files = page.getByRole('region', { name: 'Changed files' })
  await expect(files).toContainText('greeting.txt')
  await expect(files).toContainText('Good evening.')

  const panel = page.getByRole('region', { name: 'Pull request' })
  await expect(panel).toContainText('No conflicts with main')
  await panel.getByRole('button', { name: 'Merge…' }).click()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Squash and merge' }).click()
  const base = /Merged into main as ([0-9a-f]{7})/
  await expect(panel).toContainText(base)
  const shown = base.exec(await panel.innerText())?.[1] ?? ''
  expect(await repository.git('rev-parse', 'main')).toMatch(new RegExp(`^${shown}`))
  expect(await repository.git('show', 'main:greeting.txt')).toBe('Good evening.')
  await expect(header).toContainText('Merged')
  // The branch is deleted, but what it changed is still shown.
  await expect(files).toContainText('Good evening.')
})

test('a sandbox without a branch has no changes', async ({ page, api }) => {
  const worker = await api.register('No repository')
  const run = new RunPage(page)
  await run.open(worker.id, '?tab=changes')
  await run.untilLive()
  await expect(run.tab(/Events/)).toHaveAttribute('aria-selected', 'true')
  await expect(run.tab('Changes')).toHaveCount(0)
})
