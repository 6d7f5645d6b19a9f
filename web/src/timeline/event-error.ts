import type { LogEvent } from './event'
import { firstText, flag, text } from './read'
import { toolName } from './calls'
import { hasTrait } from './event-traits'

/** The error message of an event that reports a failure, otherwise `null`. */
export function errorOf(event: LogEvent): string | null {
  const { data, type } = event
  if (hasTrait(type, 'reports_failure')) {
    return firstText(data, 'error', 'error_message', 'message', 'reason') ?? 'No reason given.'
  }
  if (hasTrait(type, 'completes_call')) {
    return flag(data, 'is_error') ? `${toolName(event) ?? 'A tool'}: ${firstLine(text(data, 'tool_response'))}` : null
  }
  if (type === 'agent.completed' && data['success'] === false) {
    return firstText(data, 'error', 'stop_reason') ?? 'Task failed.'
  }
  return null
}

function firstLine(text: string | null): string {
  const line = (text ?? '').split('\n').find((each) => each.trim() !== '')
  return line === undefined ? 'failed' : line.slice(0, 200)
}
