import { type Locator, type Page, expect } from '@playwright/test'
import { paths } from '../../src/util/paths'

/** The page of a sandbox, queried by roles and labels. */
export class RunPage {
  readonly page: Page

  constructor(page: Page) {
    this.page = page
  }

  async open(sandboxId: string, query = '') {
    await this.page.goto(paths.sandbox(sandboxId) + query)
  }

  get feed(): Locator {
    return this.page.getByRole('feed')
  }

  /** The rendered rows: the visible ones and a few around them. */
  get rows(): Locator {
    return this.feed.getByRole('article')
  }

  rowWith(text: string): Locator {
    return this.rows.filter({ hasText: text })
  }

  /** Connecting, Live, Reconnecting or Disconnected. */
  get connection(): Locator {
    return this.page.getByRole('status', { name: /^Connection: / })
  }

  /** The status badge of the task or the sandbox. */
  status(label: string): Locator {
    return this.page.getByRole('main').locator('header').getByText(label, { exact: true })
  }

  tab(name: string | RegExp): Locator {
    return this.page.getByRole('tab', { name })
  }

  get message(): Locator {
    return this.page.getByRole('textbox', { name: /message/i })
  }

  /** Messages that are not in the log yet. */
  get pendingMessages(): Locator {
    return this.page.getByRole('list', { name: 'Pending messages' })
  }

  async untilLive() {
    await expect(this.connection).toContainText('Live')
  }

  /** Presses Retry until the connection is live, to skip the backoff. */
  async untilLiveAgain() {
    const retry = this.page.getByRole('button', { name: 'Retry', exact: true })
    await expect(async () => {
      if (await retry.isVisible()) await retry.click({ timeout: 500 })
      await expect(this.connection).toContainText('Live', { timeout: 1_000 })
    }).toPass()
  }

  /** Loads the run from its first event by opening the Files tab. */
  async loadAll() {
    await this.tab(/Files/).click()
    await expect(this.page.getByText(/changed files?$/)).toBeVisible()
    await expect(this.page.getByRole('progressbar', { name: 'Loading all events' })).toBeHidden({ timeout: 60_000 })
    await this.tab(/Events/).click()
  }

  /** Whether the feed is scrolled to its end. */
  async atBottom(): Promise<boolean> {
    return this.feed.evaluate((feed) => feed.scrollHeight - feed.scrollTop - feed.clientHeight < 4)
  }

  /** Scrolls up until the start of the run is loaded and visible. */
  async toBeginning() {
    await expect(async () => {
      await this.feed.evaluate((feed) => feed.scrollTo({ top: 0 }))
      await expect(this.page.getByText('Start of run')).toBeInViewport({ timeout: 500 })
    }).toPass()
  }

  /**
   * Every row of the feed with the sequence number of its event and its text, top to bottom. Only a window of them is
   * rendered, so this scrolls through the feed and collects the rows.
   */
  async everyRow(): Promise<{ seq: number; text: string }[]> {
    await this.toBeginning()
    return this.feed.evaluate(async (feed) => {
      const frames = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))
      const rows = new Map<number, { seq: number; text: string }>()
      const collect = () => {
        for (const row of feed.querySelectorAll<HTMLElement>('[data-row]')) {
          const href = row.querySelector<HTMLAnchorElement>(':scope > a')?.href ?? ''
          const seq = Number(new URL(href).searchParams.get('at'))
          rows.set(Number(row.dataset['row']), { seq, text: row.innerText })
        }
      }
      for (;;) {
        await frames()
        collect()
        const before = feed.scrollTop
        feed.scrollTop += feed.clientHeight * 0.9
        await frames()
        if (feed.scrollTop === before) break
      }
      collect()
      return [...rows].sort(([left], [right]) => left - right).map(([, row]) => row)
    })
  }
}
