import { type Locator, type Page, expect } from '@playwright/test'

/** The page of one sandbox, as somebody sees it: by roles and labels, and rows by the key that each carries. */
export class RunPage {
  readonly page: Page

  constructor(page: Page) {
    this.page = page
  }

  async open(sandboxId: string, query = '') {
    await this.page.goto(`/sandbox/${sandboxId}${query}`)
  }

  get feed(): Locator {
    return this.page.getByRole('feed')
  }

  /** Rows that are in the document: those in sight, and a few around them. */
  get rows(): Locator {
    return this.feed.getByRole('article')
  }

  rowWith(words: string): Locator {
    return this.rows.filter({ hasText: words })
  }

  /** Connecting, Live, Reconnecting or Disconnected. */
  get connection(): Locator {
    return this.page.getByRole('status', { name: /^Connection: / })
  }

  /** The badge that says where its task stands, or the sandbox itself. */
  status(word: string): Locator {
    return this.page.getByRole('main').locator('header').getByText(word, { exact: true })
  }

  tab(name: string | RegExp): Locator {
    return this.page.getByRole('tab', { name })
  }

  get message(): Locator {
    return this.page.getByRole('textbox', { name: /message/i })
  }

  /** What was said and is not in the log yet. */
  get onTheirWay(): Locator {
    return this.page.getByRole('list', { name: 'Messages on their way' })
  }

  async untilLive() {
    await expect(this.connection).toContainText('Live')
  }

  /** Presses Retry, as somebody does who does not want to wait. */
  async untilLiveAgain() {
    const retry = this.page.getByRole('button', { name: 'Retry', exact: true })
    await expect(async () => {
      if (await retry.isVisible()) await retry.click({ timeout: 500 })
      await expect(this.connection).toContainText('Live', { timeout: 1_000 })
    }).toPass()
  }

  /** Has the page load the run from its first event on, as the tabs do that speak of all of it. */
  async loadAll() {
    await this.tab(/Files/).click()
    await expect(this.page.getByText(/changed files?$/)).toBeVisible()
    await expect(this.page.getByRole('progressbar', { name: 'Loading the whole run' })).toBeHidden({ timeout: 60_000 })
    await this.tab(/Events/).click()
  }

  /** The newest row is in sight. */
  async atBottom(): Promise<boolean> {
    return this.feed.evaluate((feed) => feed.scrollHeight - feed.scrollTop - feed.clientHeight < 4)
  }

  /** Scrolls up, and up again while older rows come, to where the run begins. */
  async toBeginning() {
    await expect(async () => {
      await this.feed.evaluate((feed) => feed.scrollTo({ top: 0 }))
      await expect(this.page.getByText('Beginning of the run')).toBeInViewport({ timeout: 500 })
    }).toPass()
  }

  /**
   * Every row of the feed with the event that put it there and its text, top to bottom. Only a window of them is ever
   * in the document, so this scrolls through all of it and puts together what it meets.
   */
  async everyRow(): Promise<{ seq: number; text: string }[]> {
    await this.toBeginning()
    return this.feed.evaluate(async (feed) => {
      const frames = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))
      const met = new Map<number, { seq: number; text: string }>()
      const gather = () => {
        for (const row of feed.querySelectorAll<HTMLElement>('[data-row]')) {
          const moment = row.querySelector<HTMLAnchorElement>(':scope > a')?.href ?? ''
          const seq = Number(new URL(moment).searchParams.get('at'))
          met.set(Number(row.dataset['row']), { seq, text: row.innerText })
        }
      }
      for (;;) {
        await frames()
        gather()
        const before = feed.scrollTop
        feed.scrollTop += feed.clientHeight * 0.9
        await frames()
        if (feed.scrollTop === before) break
      }
      gather()
      return [...met].sort(([one], [other]) => one - other).map(([, row]) => row)
    })
  }
}
