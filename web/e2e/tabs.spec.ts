import { command, isolation, preview, started, text, turnCompleted, written } from './support/events'
import { RunPage } from './support/run-page'
import { expect, test } from './support/test'

test('the preview tab appears and is selected when the preview is ready', async ({ page, api }) => {
  const worker = await api.register('A shop')
  await worker.emit(started(), text('I start the server.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await expect(run.tab('Preview')).toHaveCount(0)

  await worker.emit(preview('starting', null, 5173))
  await expect(run.tab('Preview')).toBeVisible()
  await expect(run.tab(/Events/)).toHaveAttribute('aria-selected', 'true')
  await worker.emit(preview('ready', 'https://shop.example/login', 5173))
  await expect(run.tab('Preview')).toHaveAttribute('aria-selected', 'true')
  // The worker chose this URL, and the sandbox has no provider that would have a link of its own.
  await expect(page.getByRole('link', { name: 'shop.example' })).toBeVisible()
  await expect(page.locator('iframe')).toHaveCount(0)
})

test('a preview does not replace a tab that the user chose', async ({ page, api }) => {
  const worker = await api.register('A reader of files')
  await worker.emit(started(), ...written('a.txt', ['one']))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await run.tab(/Files/).click()
  await worker.emit(preview('ready', 'http://127.0.0.1:9/'))
  await expect(run.tab('Preview')).toBeVisible()
  await expect(run.tab(/Files/)).toHaveAttribute('aria-selected', 'true')
})

test('changed files are listed with diffs, and long diffs load on demand', async ({ page, api }) => {
  const worker = await api.register('Files')
  const long = Array.from({ length: 4_700 }, (_, line) => `export const value${line} = '${'x'.repeat(30)}'`)
  await worker.emit(started(), ...written('src/short.ts', ['export const one = 1', 'export const two = 2']))
  await worker.emit(...written('src/long.ts', long))
  const run = new RunPage(page)
  await run.open(worker.id, '?tab=files')
  const files = page.getByRole('listbox', { name: 'Changed files' })
  await expect(files.getByRole('option')).toHaveCount(2)
  const short = files.getByRole('option', { name: /short\.ts/ })
  await short.click()
  await expect(page).toHaveURL(/file=src%2Fshort\.ts/)
  const file = page.getByRole('article', { name: 'src/short.ts' })
  await expect(file.getByText('export const two = 2')).toBeVisible()

  await files.press('ArrowUp')
  const other = page.getByRole('article', { name: 'src/long.ts' })
  await expect(other).toBeVisible()
  const response = page.waitForResponse(/\/events\/\d+\/body/)
  await other.getByRole('button', { name: 'Load full diff' }).click()
  expect((await response).status()).toBe(200)
  await expect(other.getByRole('button', { name: 'Load full diff' })).toBeHidden()
  await other.getByRole('button', { name: /Show all/ }).click()
  await expect(other.getByText('value4699')).toBeAttached()
})

test('the terminal shows every command with output and outcome', async ({ page, api }) => {
  const worker = await api.register('Terminal')
  await worker.emit(
    started(),
    ...command('npm test', '\u001b[32m12 passed\u001b[0m'),
    ...command('npm run lint', 'src/a.ts: unused import', 2),
  )
  const run = new RunPage(page)
  await run.open(worker.id, '?tab=terminal')
  const terminal = page.getByRole('region', { name: 'Commands and output' })
  await expect(terminal.getByText('npm test')).toBeVisible()
  await expect(terminal.getByText('12 passed')).toBeVisible()
  await expect(terminal.getByText('Failed with exit code 2')).toBeVisible()
  await page.getByRole('button', { name: /Only failed/ }).click()
  await expect(terminal.getByText('npm test')).toBeHidden()
  await expect(terminal.getByText('npm run lint')).toBeVisible()
})

test('details show total cost, tokens and counts', async ({ page, api }) => {
  const worker = await api.register('Details')
  await worker.emit(
    started(),
    ...command('true', ''),
    ...written('a.txt', ['one']),
    turnCompleted(1, 0.25),
    text('Once more.', 2),
    turnCompleted(2, 0.5),
  )
  const run = new RunPage(page)
  await run.open(worker.id, '?tab=details')
  const details = page.getByRole('tabpanel')
  await expect(details).toContainText('$0.75')
  await expect(details).toContainText('2,400')
  await expect(details).toContainText('680')
  await expect(details).toContainText(worker.id)
})

test('details and header show how the agent is isolated', async ({ page, api }) => {
  const worker = await api.register('Isolation')
  await worker.emit(isolation('none', ['The agent can read all files of this user.']), started())
  const run = new RunPage(page)
  await run.open(worker.id, '?tab=details')
  await expect(page.getByText('Not isolated', { exact: true })).toBeVisible()
  const details = page.getByRole('tabpanel')
  await expect(details).toContainText('The agent can read all files of this user.')
  await expect(details).toContainText('Registered by')
})
