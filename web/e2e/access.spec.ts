import type { Page } from '@playwright/test'
import { started, text } from './support/events'
import { ListPage } from './support/list-page'
import { RunPage } from './support/run-page'
import { expect, test } from './support/test'

/** A browser that has no token. */
const signedOut = { cookies: [], origins: [] }

const storedToken = (page: Page) => page.evaluate(() => localStorage.getItem('sunaba.token'))

test('the printed link signs in and leaves no code in the URL', async ({ browser, plane, api }) => {
  const worker = await api.register('Behind the link')
  await worker.emit(started(), text('You are in.'))
  const page = await browser.newPage({ baseURL: plane.url, storageState: signedOut })
  const requests: string[] = []
  page.on('request', (request) => requests.push(request.url()))
  // The link of `sunaba dev` works once, and each process of these tests has several tests.
  const link = await plane.newLink()
  await page.goto(link)
  await expect(page).toHaveURL(`${plane.url}/command`)
  await page.goto(`/sandbox/${worker.id}`)
  await expect(new RunPage(page).feed.getByText('You are in.')).toBeVisible()
  await new RunPage(page).untilLive()
  const secrets = [new URL(link).hash.slice('#code='.length), plane.token, (await storedToken(page)) ?? '']
  for (const secret of secrets) {
    expect(secret).not.toBe('')
    expect(requests.filter((url) => url.includes(secret))).toEqual([])
  }
  expect(await storedToken(page), 'the browser gets a token that expires').not.toBe(plane.token)
  await page.goBack()
  await expect(page).toHaveURL(`${plane.url}/command`)
  await page.close()
})

test('a sign-in link asks before it replaces the stored token', async ({ page, plane }) => {
  const link = await plane.newLink()
  const dialog = page.getByRole('alertdialog', { name: 'Replace the current sign-in?' })
  await page.goto(link)
  await dialog.getByRole('button', { name: 'Keep current sign-in' }).click()
  await expect(dialog).toBeHidden()
  await expect(page).toHaveURL(`${plane.url}/command`)
  expect(await storedToken(page)).toBe(plane.token)
  // It was not spent.
  await page.goto('/sandboxes')
  await page.goto(link)
  await dialog.getByRole('button', { name: 'Replace' }).click()
  await expect(dialog).toBeHidden()
  await expect.poll(() => storedToken(page)).not.toBe(plane.token)
  await page.goto('/sandboxes')
  await new ListPage(page).untilLoaded()
})

test('a used sign-in link says how to get another', async ({ browser, plane }) => {
  const link = await plane.newLink()
  for (const isUsed of [false, true]) {
    const page = await browser.newPage({ baseURL: plane.url, storageState: signedOut })
    await page.goto(link)
    await expect(page).toHaveURL(`${plane.url}/command`)
    const dialog = page.getByRole('alertdialog', { name: 'Sign-in failed' })
    if (isUsed) {
      await expect(dialog).toContainText('The link has expired or was used before. Run sunaba link')
      await dialog.getByRole('button', { name: 'Close' }).click()
      await expect(page.getByRole('button', { name: 'Sign in with a token' })).toBeVisible()
      expect(await storedToken(page)).toBeNull()
    } else {
      await expect(page.getByRole('button', { name: 'Your token' })).toBeVisible()
      await expect(dialog).toBeHidden()
    }
    await page.close()
  }
})

test('a token in a link does not replace the stored one', async ({ page, plane }) => {
  await page.goto('/sandboxes?token=of-someone-else&q=build')
  await expect(page).toHaveURL(`${plane.url}/sandboxes?q=build`)
  await page.getByRole('alertdialog', { name: 'This link does not sign in' }).getByRole('button').click()
  await new ListPage(page).untilLoaded()
  expect(await storedToken(page)).toBe(plane.token)
})

test('an invalid token is reported, and signing in returns to the page', async ({ browser, plane, api }) => {
  const worker = await api.register('Behind a sign-in')
  await worker.emit(started(), text('You are in.'))
  const page = await browser.newPage({
    baseURL: plane.url,
    storageState: {
      cookies: [],
      origins: [{ origin: plane.url, localStorage: [{ name: 'sunaba.token', value: 'wrong' }] }],
    },
  })
  await page.goto(`/sandbox/${worker.id}`)
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
