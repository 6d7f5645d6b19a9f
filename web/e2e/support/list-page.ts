import { type Locator, type Page, expect } from '@playwright/test'
import { paths } from '../../src/util/paths'

/** The page that lists sandboxes. */
export class ListPage {
  readonly page: Page

  constructor(page: Page) {
    this.page = page
  }

  async open(query = '') {
    await this.page.goto(paths.sandboxes + query)
  }

  async untilLoaded() {
    await expect(this.page.getByRole('heading', { name: /^Sandboxes [\d,]+$/ })).toBeVisible()
  }

  get search(): Locator {
    return this.page.getByRole('searchbox')
  }

  get scroller(): Locator {
    return this.page.getByRole('list', { name: 'Sandboxes' }).locator('..')
  }

  get cards(): Locator {
    return this.page.getByRole('article')
  }

  card(title: string): Locator {
    return this.cards.filter({ hasText: title })
  }

  filter(name: string): Locator {
    return this.page.getByRole('group', { name: 'Status' }).getByRole('button', { name: new RegExp(`^${name}`) })
  }
}
