import { paths } from '../src/util/paths'
import { branchShowcase } from './support/repository'
import { expect, test } from './support/test'
import { showcase } from './support/showcase'
import { visits } from './support/visits'

/**
 * `SCREENS=1` also takes screenshots of both themes in test-results/screens. Themes only change colours, so one of them
 * is enough without screenshots.
 */
const takesScreenshots = process.env['SCREENS'] === '1'
const sizes = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } } as const
const themes = takesScreenshots ? (['light', 'dark'] as const) : (['light'] as const)

for (const [size, viewport] of Object.entries(sizes)) {
  for (const theme of themes) {
    test.describe(`${size}, ${theme}`, () => {
      test.use({ viewport, colorScheme: theme, hasTouch: size === 'phone' })

      test('every page fits its window', async ({ page, api, repository }) => {
        const id = await showcase(api)
        const scripted = await branchShowcase(api, repository)
        const pages = Object.values(visits(id, scripted)).flatMap((page) => Object.entries(page))
        for (const [name, path] of [...pages, ['scripted', paths.sandbox(scripted)] as const]) {
          await page.goto(path)
          await expect(page.getByRole('main')).not.toBeEmpty()
          await page.waitForLoadState('networkidle')
          if (takesScreenshots) await page.screenshot({ path: `test-results/screens/${name}-${size}-${theme}.png` })
          for (const tab of await page.getByRole('tab', { selected: true }).all()) {
            await expect(tab).toBeInViewport({ ratio: 0.9 })
          }
          const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
          expect(overflow, `horizontal overflow of ${path}`).toBeLessThanOrEqual(0)
        }
      })

      test('the dialogs of sign-in links fit their window', async ({ page, plane }) => {
        const dialogs = {
          replace: await plane.newLink(),
          failed: '/#code=used',
          'token-in-url': '/?token=theirs',
        }
        for (const [name, path] of Object.entries(dialogs)) {
          await page.goto(path)
          const dialog = page.getByRole('alertdialog')
          if (name === 'failed') {
            await dialog.getByRole('button', { name: 'Replace' }).click()
            await expect(dialog).toContainText('Sign-in failed')
          }
          await expect(dialog).toBeInViewport({ ratio: 1 })
          for (const each of await dialog.getByRole('button').all()) await expect(each).toBeInViewport({ ratio: 1 })
          if (takesScreenshots)
            await page.screenshot({ path: `test-results/screens/sign-in-${name}-${size}-${theme}.png` })
        }
      })
    })
  }
}
