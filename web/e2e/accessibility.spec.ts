import AxeBuilder from '@axe-core/playwright'
import type { Page } from '@playwright/test'
import { RunPage } from './support/run-page'
import { showcase } from './support/showcase'
import { expect, script, test } from './support/test'
import { UNKNOWN_PATH, visits } from './support/visits'

for (const theme of ['light', 'dark'] as const) {
  test.describe(`in the ${theme} theme`, () => {
    test.use({ colorScheme: theme })

    test('the sandbox tabs have no serious violations', async ({ page, api }) => {
      const id = await showcase(api)
      for (const [tab, path] of Object.entries(visits(id, id).sandbox)) {
        await page.goto(path)
        await expect(new RunPage(page).tab(new RegExp(tab, 'i'))).toHaveAttribute('aria-selected', 'true')
        await page.waitForLoadState('networkidle')
        await expectNoViolations(page, theme, `tab ${tab}`)
      }
    })

    test('the other pages have no serious violations', async ({ page, api }) => {
      const id = await showcase(api)
      const waiting = await api.ticket({ title: 'A waiting ticket', agent: script('waiting') })
      const others = Object.entries(visits(id, id)).filter(([name]) => name !== 'sandbox')
      for (const path of [...others.flatMap(([, page]) => Object.values(page)), UNKNOWN_PATH]) {
        await page.goto(path)
        await expect(page.getByRole('main')).not.toBeEmpty()
        await page.waitForLoadState('networkidle')
        await expectNoViolations(page, theme, path)
      }
      await api.cancel(waiting)
    })

    test('the question of a sign-in link has no serious violations', async ({ page, plane }) => {
      await page.goto(await plane.newLink())
      await expect(page.getByRole('alertdialog')).toBeVisible()
      await expectNoViolations(page, theme, 'the question of a sign-in link')
    })
  })
}

async function expectNoViolations(page: Page, theme: 'light' | 'dark', where: string) {
  // Wait for animations to end, so that final colours are measured.
  await page.evaluate(async () => {
    const animations = document
      .getAnimations()
      .filter(({ effect }) => Number.isFinite(effect?.getComputedTiming().endTime))
    await Promise.allSettled(animations.map(({ finished }) => finished))
  })
  // Reporting passing elements takes longer than checking them.
  const axe = new AxeBuilder({ page }).options({ resultTypes: ['violations'] })
  // Themes only change colours, so the other rules are checked once.
  if (theme === 'light') axe.withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'])
  else axe.withRules('color-contrast')
  const { passes, violations } = await axe.analyze()
  expect(passes, `rules checked in ${where}`).not.toHaveLength(0)
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
  const found = serious.map(({ id, help, nodes }) => `${id}: ${help}\n  ${nodes.map(({ html }) => html).join('\n  ')}`)
  expect(found, `violations in ${where}`).toEqual([])
}
