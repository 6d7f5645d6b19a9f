import type { LogEvent } from './event'
import { firstText, flag, text } from './read'
import { toolName } from './calls'

/** What went wrong, in words, if this event says that something did. */
export function faultOf(event: LogEvent): string | null {
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
      return firstText(data, 'error', 'error_message', 'message', 'reason') ?? 'Nobody said why.'
    case 'agent.completed':
      return data['success'] === false ? (firstText(data, 'error', 'stop_reason') ?? 'The task failed.') : null
    case 'agent.tool_completed':
    case 'agent.subagent_completed':
    case 'agent.skill_completed':
      return flag(data, 'is_error') ? `${toolName(event) ?? 'A tool'}: ${firstLine(text(data, 'tool_response'))}` : null
    default:
      return null
  }
}

function firstLine(words: string | null): string {
  const line = (words ?? '').split('\n').find((each) => each.trim() !== '')
  return line === undefined ? 'it failed' : line.slice(0, 200)
}
