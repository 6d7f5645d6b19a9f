import type { Api } from './support/api'
import { command, failed, started, text, turnCompleted, written } from './support/events'
import { RunPage } from './support/run-page'
import { address, expect, test } from './support/test'

/** A run with one error, two files and events 1 to 12. */
async function aRun(api: Api) {
  const worker = await api.register('To be replayed')
  await worker.emit(started(), text('In the beginning.')) // 1, 2
  await worker.emit(...written('first.txt', ['one'])) // 3 to 5
  await worker.emit(failed('The disk is full.')) // 6
  await worker.emit(turnCompleted(1, 0.25)) // 7
  await worker.emit(...written('second.txt', ['two', 'three'])) // 8 to 10
  await worker.emit(text('In the end.'), turnCompleted(2, 0.5)) // 11, 12
  return worker.id
}

test('a link to an event shows rows, files and cost at that point', async ({ page, api }) => {
  const run = new RunPage(page)
  await run.open(await aRun(api), '?tab=replay&at=7')
  const replay = page.getByRole('tabpanel')
  await expect(replay.getByRole('slider')).toHaveAttribute('aria-valuetext', /event 7 of 12/i)
  await expect(replay.getByText('The disk is full.').first()).toBeVisible()
  await expect(replay.getByText('In the end.')).toHaveCount(0)
  await expect(replay.getByText('first.txt').first()).toBeVisible()
  await expect(replay.getByText('second.txt')).toHaveCount(0)
  await expect(replay.getByText('$0.25').first()).toBeVisible()
})

test('jumps go to errors and edits and update the URL', async ({ page, api }) => {
  const run = new RunPage(page)
  await run.open(await aRun(api), '?tab=replay&at=1')
  const slider = page.getByRole('slider')
  await expect(slider).toHaveAttribute('aria-valuetext', /event 1 of 12/i)
  await page.getByRole('button', { name: 'Next error' }).click()
  await expect(slider).toHaveAttribute('aria-valuetext', /event 6 of 12/i)
  await page.getByRole('button', { name: 'Next edit' }).click()
  await expect(slider).toHaveAttribute('aria-valuetext', /event 10 of 12/i)
  await page.getByRole('button', { name: 'Previous edit' }).click()
  await expect(slider).toHaveAttribute('aria-valuetext', /event 5 of 12/i)
  await expect.poll(() => address(page)).toContain('at=5')
  await page.reload()
  await expect(slider).toHaveAttribute('aria-valuetext', /event 5 of 12/i)
})

test('playback stops at the end', async ({ page, api }) => {
  const run = new RunPage(page)
  await run.open(await aRun(api), '?tab=replay&at=1')
  await expect(page.getByRole('slider')).toHaveAttribute('aria-valuetext', /event 1 of 12/i)
  await page.getByRole('button', { name: 'Play' }).click()
  await expect(page.getByRole('slider')).toHaveAttribute('aria-valuetext', /event 12 of 12/i)
  await expect(page.getByRole('button', { name: 'Play' })).toBeVisible()
})

test('a feed row links to its event in the replay', async ({ page, api }) => {
  const id = await aRun(api)
  const run = new RunPage(page)
  await run.open(id)
  const row = run.rowWith('The disk is full.')
  await row.hover()
  await row.getByRole('link', { name: /link to this event/i }).click()
  await expect(page).toHaveURL(`/sandbox/${id}?tab=replay&at=6`)
  await expect(page.getByRole('slider')).toHaveAttribute('aria-valuetext', /event 6 of 12/i)
})

test('two runs are compared side by side and can be swapped', async ({ page, api }) => {
  const left = await aRun(api)
  const worker = await api.register('The other run')
  await worker.emit(started(), text('Another way.'), ...written('first.txt', ['another']), ...command('true', ''))
  await worker.emit(turnCompleted(1, 1.5))
  await page.goto(`/compare?left=${left}&right=${worker.id}`)
  await expect(page.getByText('$0.75').first()).toBeVisible()
  await expect(page.getByText('$1.50').first()).toBeVisible()
  await page.getByRole('tab', { name: 'Files' }).click()
  const second = page.getByRole('option', { name: /second\.txt/ }).or(page.getByRole('button', { name: /second\.txt/ }))
  await expect(second).toContainText(/only left/i)
  await page.getByRole('button', { name: 'Swap' }).click()
  await expect(page).toHaveURL(new RegExp(`left=${worker.id}&right=${left}`))
  await expect(second).toContainText(/only right/i)
  await page.getByRole('tab', { name: 'Steps' }).click()
  await expect(page.getByText('Another way.')).toBeVisible()
  await expect(page.getByText('In the beginning.')).toBeVisible()
})
