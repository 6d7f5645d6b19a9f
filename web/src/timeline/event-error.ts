import type { LogEvent } from './event'
import { type EventTypeWith, hasTrait } from './event-traits'
import { firstText, flag, isFalse, text } from './read'

/** An event that reports a failure. `agent.completed` does if its `success` is `false`. */
export type FailureEvent = LogEvent<EventTypeWith<'reports_failure'> | 'agent.completed'>

/** The error message of an event that reports a failure, otherwise `null`. */
export function errorOf(event: LogEvent): string | null {
  if (reportsFailure(event)) return failureReason(event)
  if (completesCall(event)) {
    if (!flag(event.data, 'is_error')) return null
    return `${firstText(event.data, 'tool') ?? 'A tool'}: ${firstLine(text(event.data, 'tool_response'))}`
  }
  if (event.type === 'agent.completed' && isFalse(event.data, 'success')) {
    return firstText(event.data, 'error', 'stop_reason') ?? 'Task failed.'
  }
  return null
}

export function failureReason(event: FailureEvent): string {
  return firstText(event.data, 'error') ?? reasonWithoutError(event) ?? 'No reason given.'
}

function reasonWithoutError(event: FailureEvent): string | null {
  switch (event.type) {
    case 'sandbox.failed':
      return firstText(event.data, 'message', 'reason')
    case 'task.failed':
      return firstText(event.data, 'error_message', 'reason')
    default:
      // Names of other workers.
      return firstText(event.raw, 'error_message', 'message', 'reason')
  }
}

function reportsFailure(event: LogEvent): event is LogEvent<EventTypeWith<'reports_failure'>> {
  return hasTrait(event.type, 'reports_failure')
}

function completesCall(event: LogEvent): event is LogEvent<EventTypeWith<'completes_call'>> {
  return hasTrait(event.type, 'completes_call')
}

function firstLine(text: string | null): string {
  const line = (text ?? '').split('\n').find((each) => each.trim() !== '')
  return line === undefined ? 'failed' : line.slice(0, 200)
}
