import { type Page, test as base, expect } from '@playwright/test'
import type { Api } from './api'
import { Plane } from './plane'

/** What a browser says by itself when a test cuts a connection on purpose. Everything else is a defect. */
const CUTS = /Failed to load resource|WebSocket connection to|ERR_CONNECTION|net::ERR/

interface Fixtures {
  api: Api
  /** Fails a test whose pages threw, or complained. */
  quiet: undefined
}

/** A test has a plane, shared with the other tests of its process, and a browser that is signed in to it. */
export const test = base.extend<Fixtures, { plane: Plane }>({
  plane: [
    // Playwright reads what a fixture needs out of this pattern: it has to be one.
    async ({}, give) => {
      const plane = await Plane.start()
      await give(plane)
      await plane.close()
    },
    { scope: 'worker', timeout: 60_000 },
  ],
  api: async ({ plane }, give) => give(plane.api),
  baseURL: async ({ plane }, give) => give(plane.url),
  storageState: async ({ plane }, give) =>
    give({
      cookies: [],
      origins: [{ origin: plane.url, localStorage: [{ name: 'sunaba.token', value: plane.token }] }],
    }),
  quiet: [
    async ({ context }, give) => {
      const complaints: string[] = []
      context.on('weberror', (error) => complaints.push(error.error().stack ?? error.error().message))
      context.on('console', (message) => {
        if (message.type() === 'error' && !CUTS.test(message.text())) complaints.push(message.text())
      })
      await give(undefined)
      expect(complaints, 'what pages threw or complained about').toEqual([])
    },
    { auto: true },
  ],
})

export { expect }

/** A script of the scripted agent in e2e/scripts, as a ticket names it. */
export const script = (name: string) => `scripted:${import.meta.dirname}/../scripts/${name}.jsonl`

/** Where a page is, without its host. */
export function address(page: Page): string {
  const { pathname, search } = new URL(page.url())
  return `${pathname}${search}`
}
