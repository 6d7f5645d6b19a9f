import { type Page, test as base, expect } from '@playwright/test'
import type { Api } from './api'
import { Plane } from './plane'
import { Repository } from './repository'

/** Browser errors that are expected when a test closes a connection. Everything else is a defect. */
const EXPECTED_ERRORS = /Failed to load resource|WebSocket connection to|ERR_CONNECTION|net::ERR/

interface Fixtures {
  api: Api
  /** A repository of this machine, for the tasks of the test. */
  repository: Repository
  /** Fails a test whose pages threw or logged an error. */
  noPageErrors: undefined
}

/**
 * Each test has a control plane, shared with the other tests of its process, and a signed-in browser. Playwright derives
 * the dependencies of a fixture from its destructuring pattern, so an empty pattern is required, too.
 */
export const test = base.extend<Fixtures, { plane: Plane }>({
  plane: [
    async ({}, provide) => {
      const plane = await Plane.start()
      await provide(plane)
      await plane.close()
    },
    { scope: 'worker', timeout: 60_000 },
  ],
  api: async ({ plane }, provide) => provide(plane.api),
  repository: async ({}, provide) => {
    const repository = await Repository.create()
    await provide(repository)
    repository.remove()
  },
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

export { script } from './scripts'
export { expect }

/** The path and query of a page. */
export function address(page: Page): string {
  const { pathname, search } = new URL(page.url())
  return `${pathname}${search}`
}
