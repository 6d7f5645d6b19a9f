import type { LogEvent } from './event'
import { list } from './read'

/** What the isolation of the agent does not cover, in sentences of its worker. */
export function notCoveredBy(event: LogEvent<'worker.isolation'>): string[] {
  return list(event.data, 'not_covered').filter((sentence) => typeof sentence === 'string')
}
