import { started, text } from './support/events'
import { ListPage } from './support/list-page'
import { RunPage } from './support/run-page'
import { expect, test } from './support/test'

test('the printed link signs in and leaves no token in the URL', async ({ browser, plane, api }) => {
  const worker = await api.register('Behind the link')
  await worker.emit(started(), text('You are in.'))
  const page = await browser.newPage({ baseURL: plane.url, storageState: { cookies: [], origins: [] } })
  await page.goto(`/?token=${plane.token}`)
  await expect(page).toHaveURL(`${plane.url}/command`)
  await page.goto(`/sandbox/${worker.id}`)
  await expect(new RunPage(page).feed.getByText('You are in.')).toBeVisible()
  await page.close()
})

test('an invalid token is reported, and signing in returns to the page', async ({ browser, plane, api }) => {
  const worker = await api.register('Behind a sign-in')
  await worker.emit(started(), text('You are in.'))
  const page = await browser.newPage({ baseURL: plane.url, storageState: { cookies: [], origins: [] } })
  await page.goto(`/sandbox/${worker.id}?token=wrong`)
  await expect(page.getByText(/token/i).first()).toBeVisible()
  await page.getByRole('button', { name: /token/i }).first().click()
  await page.getByLabel('Token', { exact: true }).fill(plane.token)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await expect(new RunPage(page).feed.getByText('You are in.')).toBeVisible()
  await new RunPage(page).untilLive()
  await expect(page).toHaveURL(`${plane.url}/sandbox/${worker.id}`)
  await page.close()
})

test('an unknown sandbox shows a not-found page', async ({ page }) => {
  await page.goto('/sandbox/unknown-sandbox')
  await expect(page.getByText(/sandbox not found/i)).toBeVisible()
  await page.getByRole('link', { name: 'Sandboxes', exact: true }).click()
  await new ListPage(page).untilLoaded()
})

test('every URL can be opened directly, and unknown ones show a not-found page', async ({ page, api }) => {
  const worker = await api.register('Deep links')
  await worker.emit(started(), text('Hello.'))
  for (const tab of ['files', 'terminal', 'replay', 'details']) {
    await page.goto(`/sandbox/${worker.id}?tab=${tab}`)
    await expect(new RunPage(page).tab(new RegExp(tab, 'i'))).toHaveAttribute('aria-selected', 'true')
  }
  await page.goto('/compare')
  await expect(page.getByRole('heading', { name: /compare/i })).toBeVisible()
  await page.goto('/nowhere')
  await expect(page.getByText('Page not found')).toBeVisible()
})
