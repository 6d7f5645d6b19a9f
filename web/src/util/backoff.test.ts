import fc from 'fast-check'
import { expect, it } from 'vitest'
import { backoffMs } from './backoff'

it.each([
  [0, 0, 500],
  [0, 0.5, 750],
  [0, 1, 1_000],
  [1, 1, 2_000],
  [5, 1, 32_000],
  [6, 0, 30_000],
  [6, 1, 60_000],
  [Number.MAX_SAFE_INTEGER, 1, 60_000],
])('after attempt %d with jitter %d the delay is %d ms', (attempt, jitter, expected) => {
  expect(backoffMs({ initialMs: 1_000, maxMs: 60_000 }, attempt, jitter)).toBe(expected)
})

it('the delay stays within its bounds and never shrinks', () => {
  const jitters = fc.double({ min: 0, max: 1, noNaN: true })
  fc.assert(
    fc.property(fc.nat(100), jitters, fc.nat(100_000), fc.nat(10_000_000), (attempt, jitter, initialMs, maxMs) => {
      const backoff = { initialMs, maxMs }
      const delay = backoffMs(backoff, attempt, jitter)
      expect(delay).toBeLessThanOrEqual(maxMs)
      expect(delay).toBeGreaterThanOrEqual(Math.min(initialMs, maxMs) / 2)
      expect(backoffMs(backoff, attempt + 1, jitter)).toBeGreaterThanOrEqual(delay)
    }),
  )
})
