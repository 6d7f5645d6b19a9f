import { type Page, test as base, expect } from '@playwright/test'
import type { Api } from './api'
import { Plane } from './plane'

/** Browser errors that are expected when a test closes a connection. Everything else is a defect. */
const EXPECTED_ERRORS = /Failed to load resource|WebSocket connection to|ERR_CONNECTION|net::ERR/

interface Fixtures {
  api: Api
  /** Fails a test whose pages threw or logged an error. */
  noPageErrors: undefined
}

/** Each test has a control plane, shared with the other tests of its process, and a signed-in browser. */
export const test = base.extend<Fixtures, { plane: Plane }>({
  plane: [
    // Playwright derives the dependencies of a fixture from this destructuring pattern, so it is required.
    async ({}, provide) => {
      const plane = await Plane.start()
      await provide(plane)
      await plane.close()
    },
    { scope: 'worker', timeout: 60_000 },
  ],
  api: async ({ plane }, provide) => provide(plane.api),
  baseURL: async ({ plane }, provide) => provide(plane.url),
  storageState: async ({ plane }, provide) =>
    provide({
      cookies: [],
      origins: [{ origin: plane.url, localStorage: [{ name: 'sunaba.token', value: plane.token }] }],
    }),
  noPageErrors: [
    async ({ context }, provide) => {
      const errors: string[] = []
      context.on('weberror', (error) => errors.push(error.error().stack ?? error.error().message))
      context.on('console', (message) => {
        if (message.type() === 'error' && !EXPECTED_ERRORS.test(message.text())) errors.push(message.text())
      })
      await provide(undefined)
      expect(errors, 'errors of the pages').toEqual([])
    },
    { auto: true },
  ],
})

export { expect }

/** The agent string for a script in e2e/scripts. */
export const script = (name: string) => `scripted:${import.meta.dirname}/../scripts/${name}.jsonl`

/** The path and query of a page. */
export function address(page: Page): string {
  const { pathname, search } = new URL(page.url())
  return `${pathname}${search}`
}
