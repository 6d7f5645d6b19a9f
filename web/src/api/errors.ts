import { Refused } from './http'

/** A sentence for whatever went wrong: what happened, and what the reader can do. */
export function sentence(error: unknown): string {
  if (!(error instanceof Refused)) return 'Something went wrong in this page. Reload it and try again.'
  switch (error.code) {
    case 'unreachable':
    case 'broken_off':
      return `${error.message} Is it running?`
    case 'unauthorized':
      return 'Your token is missing, wrong or too old. Sign in again.'
    case 'forbidden':
      return 'Your role does not allow this.'
    case 'sandbox_finished':
      return 'This sandbox has ended. Nobody is there to read it.'
    case 'mailbox_full':
      return 'Too many messages wait for this agent. Try again when it has read some.'
    case 'rate_limited':
      return 'Too many requests. Try again in a moment.'
    default:
      return error.status >= 500 ? 'The plane is out of order for a moment. Try again.' : error.message
  }
}

/** How long to wait before the next: as long as the plane asks for, else longer each time. */
export function retryDelay(failures: number, error: Error): number {
  const asked = error instanceof Refused ? error.retryAfterSeconds : null
  return asked === null ? Math.min(1_000 * 2 ** failures, 30_000) : asked * 1_000
}

/** Retries in queries: what may pass, a few times. */
export const retry = (failures: number, error: Error) => error instanceof Refused && error.mayPass && failures < 3
