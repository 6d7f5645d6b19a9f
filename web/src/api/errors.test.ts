import { describe, expect, it } from 'vitest'
import { errorMessage, retryDelay } from './errors'
import { ApiError } from './http'

const unavailable = (retryAfterSeconds: number | null) =>
  new ApiError(503, 'unavailable', 'Try again.', null, retryAfterSeconds)

describe('the delay before a query is retried', () => {
  it('grows up to 30 seconds and has jitter', () => {
    const delays = [0, 1, 9].flatMap((failures) =>
      [0, 1].map((jitter) => retryDelay(failures, unavailable(null), jitter)),
    )
    expect(delays).toEqual([500, 1_000, 1_000, 2_000, 15_000, 30_000])
  })

  it('is the one that the server requests', () => {
    expect(retryDelay(5, unavailable(7), 0)).toBe(7_000)
  })
})

describe('the message of an error', () => {
  it('names the code host if that does not respond, and not the plane', () => {
    const detail = 'The code host does not respond. Try again later.'
    expect(errorMessage(new ApiError(503, 'code_host_unavailable', detail, null, 1))).toBe(detail)
    expect(errorMessage(unavailable(null))).toBe('The control plane is temporarily unavailable. Try again.')
  })
})
