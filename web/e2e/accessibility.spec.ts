import AxeBuilder from '@axe-core/playwright'
import type { Page } from '@playwright/test'
import { RunPage } from './support/run-page'
import { showcase, tabs } from './support/showcase'
import { expect, script, test } from './support/test'

for (const theme of ['light', 'dark'] as const) {
  test.describe(`in the ${theme} theme`, () => {
    test.use({ colorScheme: theme })

    test('the pages of a sandbox have no serious barrier', async ({ page, api }) => {
      const id = await showcase(api)
      for (const tab of tabs) {
        await new RunPage(page).open(id, `?tab=${tab}`)
        await expect(new RunPage(page).tab(new RegExp(tab, 'i'))).toHaveAttribute('aria-selected', 'true')
        await page.waitForLoadState('networkidle')
        await expectNoBarrier(page, theme, `the tab ${tab}`)
      }
    })

    test('the other pages have no serious barrier', async ({ page, api }) => {
      const id = await showcase(api)
      const waits = await api.ticket({ title: 'A ticket to look at', agent: script('patient') })
      for (const path of ['/command', '/sandboxes', '/sandboxes?q=nothing-has-this', '/compare', `/compare?left=${id}&right=${id}`, '/nowhere']) {
        await page.goto(path)
        await expect(page.getByRole('main')).not.toBeEmpty()
        await page.waitForLoadState('networkidle')
        await expectNoBarrier(page, theme, path)
      }
      await api.cancel(waits)
    })
  })
}

async function expectNoBarrier(page: Page, theme: 'light' | 'dark', where: string) {
  // Colours that fade in are measured when they have.
  await page.evaluate(async () => {
    const ends = document.getAnimations().filter(({ effect }) => Number.isFinite(effect?.getComputedTiming().endTime))
    await Promise.allSettled(ends.map(({ finished }) => finished))
  })
  // Every element that passes would be described too, which takes longer than to look at it.
  const axe = new AxeBuilder({ page }).options({ resultTypes: ['violations'] })
  // A theme changes colours and nothing else: the other rules are looked at once.
  if (theme === 'light') axe.withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'])
  else axe.withRules('color-contrast')
  const { passes, violations } = await axe.analyze()
  expect(passes, `rules that were looked at in ${where}`).not.toHaveLength(0)
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
  const found = serious.map(({ id, help, nodes }) => `${id}: ${help}\n  ${nodes.map(({ html }) => html).join('\n  ')}`)
  expect(found, `barriers in ${where}`).toEqual([])
}
