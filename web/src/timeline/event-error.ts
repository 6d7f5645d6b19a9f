import type { LogEvent } from './event'
import { firstText, flag, text } from './read'
import { toolName } from './calls'

/** The error message of an event that reports a failure, otherwise `null`. */
export function errorOf(event: LogEvent): string | null {
  const { data, type } = event
  switch (type) {
    case 'agent.failed':
    case 'agent.error':
    case 'agent.stream_error':
    case 'workspace.failed':
    case 'sandbox.failed':
    case 'iteration.failed':
    case 'preview.failed':
    case 'task.failed':
      return firstText(data, 'error', 'error_message', 'message', 'reason') ?? 'No reason given.'
    case 'agent.completed':
      return data['success'] === false ? (firstText(data, 'error', 'stop_reason') ?? 'Task failed.') : null
    case 'agent.tool_completed':
    case 'agent.subagent_completed':
    case 'agent.skill_completed':
      return flag(data, 'is_error') ? `${toolName(event) ?? 'A tool'}: ${firstLine(text(data, 'tool_response'))}` : null
    default:
      return null
  }
}

function firstLine(text: string | null): string {
  const line = (text ?? '').split('\n').find((each) => each.trim() !== '')
  return line === undefined ? 'failed' : line.slice(0, 200)
}
