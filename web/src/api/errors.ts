import { type Backoff, backoffMs } from '../util/backoff'
import { ApiError } from './http'

const QUERY_BACKOFF: Backoff = { initialMs: 1_000, maxMs: 30_000 }

/** An error message for people: what happened, and what they can do about it. */
export function errorMessage(error: unknown): string {
  if (!(error instanceof ApiError)) return 'Something went wrong. Reload the page and try again.'
  switch (error.code) {
    case 'unreachable':
    case 'incomplete_response':
      return `${error.message} Check that it is running.`
    case 'unauthorized':
      return 'Your token is missing, invalid or expired. Sign in again.'
    case 'forbidden':
      return 'You do not have permission to do this.'
    case 'sandbox_finished':
      return 'Sandbox ended. It no longer receives messages.'
    case 'mailbox_full':
      return "The agent's mailbox is full. Try again after it has read some messages."
    case 'code_host_unavailable':
      return error.message
    case 'rate_limited':
      return 'Too many requests. Try again in a moment.'
    default:
      return error.status >= 500 ? 'The control plane is temporarily unavailable. Try again.' : error.message
  }
}

/** The server's `Retry-After` if it sent one, otherwise exponential backoff. */
export function retryDelay(failures: number, error: Error, jitter = Math.random()): number {
  const retryAfterSeconds = error instanceof ApiError ? error.retryAfterSeconds : null
  return retryAfterSeconds === null ? backoffMs(QUERY_BACKOFF, failures, jitter) : retryAfterSeconds * 1_000
}

/** Queries retry transient failures up to three times. */
export const retry = (failures: number, error: Error) => error instanceof ApiError && error.isRetryable && failures < 3
