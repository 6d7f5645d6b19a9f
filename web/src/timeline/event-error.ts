import type { LogEvent } from './event'
import { firstText, isFalse, someFlag, someText } from './read'
import { hasTrait } from './event-traits'

/** The error message of an event that reports a failure, otherwise `null`. */
export function errorOf(event: LogEvent): string | null {
  const { data, type } = event
  if (hasTrait(type, 'reports_failure')) {
    return someText(data, 'error', 'error_message', 'message', 'reason') ?? 'No reason given.'
  }
  if (hasTrait(type, 'completes_call')) {
    if (!someFlag(data, 'is_error')) return null
    return `${someText(data, 'tool') ?? 'A tool'}: ${firstLine(someText(data, 'tool_response'))}`
  }
  if (event.type === 'agent.completed' && isFalse(event.data, 'success')) {
    return firstText(event.data, 'error', 'stop_reason') ?? 'Task failed.'
  }
  return null
}

function firstLine(text: string | null): string {
  const line = (text ?? '').split('\n').find((each) => each.trim() !== '')
  return line === undefined ? 'failed' : line.slice(0, 200)
}
