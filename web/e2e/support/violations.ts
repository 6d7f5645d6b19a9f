import AxeBuilder from '@axe-core/playwright'
import { type Page, expect } from '@playwright/test'

/** Fails if the page has a serious violation of the accessibility rules. */
export async function expectNoViolations(page: Page, theme: 'light' | 'dark', where: string) {
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
