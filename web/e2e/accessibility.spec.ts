import { branchShowcase } from './support/repository'
import { RunPage } from './support/run-page'
import { showcase } from './support/showcase'
import { expect, script, test } from './support/test'
import { expectNoViolations } from './support/violations'
import { UNKNOWN_PATH, visits } from './support/visits'

for (const theme of ['light', 'dark'] as const) {
  test.describe(`in the ${theme} theme`, () => {
    test.use({ colorScheme: theme })

    test('the sandbox tabs have no serious violations', async ({ page, api, repository }) => {
      const [id, withBranch] = await Promise.all([showcase(api), branchShowcase(api, repository)])
      for (const [tab, path] of Object.entries(visits(id, withBranch).sandbox)) {
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
