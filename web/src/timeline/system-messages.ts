import type { JsonObject } from '../api/contract'
import type { LogEvent } from './event'
import { line } from './lines'
import { firstText, flag, isObject, list, number, object, text } from './read'
import type { RowPath, RowsBuilder } from './rows-builder'
import { decided } from './tools'

type SystemMessageEvent = LogEvent<'agent.system_message'>

/** A note about the agent's session. `null` if another event carries the same information. */
export function systemMessage(builder: RowsBuilder, event: SystemMessageEvent): RowPath | null {
  const metadata = object(event.data, 'metadata') ?? {}
  const subtype = firstText(event.data, 'subtype') ?? firstText(metadata, 'subtype') ?? ''
  switch (subtype) {
    case 'task_started':
      return taskStarted(builder, event, metadata)
    case 'task_notification':
      return taskEnded(builder, event, metadata)
    case 'task_updated':
      // A notification with more detail follows.
      return null
    case 'permission_denied':
      return decided(builder, event)
    case 'init':
      return line(builder, event, { tone: 'quiet', text: 'Session started', detail: sessionOf(metadata) })
    case 'api_retry': {
      const [attempt, max] = [number(metadata, 'attempt'), number(metadata, 'max_retries')]
      const count = attempt === null ? '' : ` (${attempt}${max === null ? '' : ` of ${max}`})`
      const text = `Model request failed. Retrying…${count}`
      return line(builder, event, { tone: 'warn', text, detail: firstText(metadata, 'error') })
    }
    case 'compact_boundary':
      return line(builder, event, { tone: 'info', text: 'Conversation compacted' })
    default: {
      const text = subtype === '' ? 'Session note' : capitalised(subtype.replaceAll('_', ' '))
      return line(builder, event, {
        tone: 'quiet',
        text,
        detail: firstText(event.data, 'message') ?? brief(metadata),
      })
    }
  }
}

/** A sub-agent or a background command that the agent reports. */
function taskStarted(builder: RowsBuilder, event: LogEvent, metadata: JsonObject): RowPath {
  const path = pathOfTask(builder, metadata)
  if (path === undefined) {
    return line(builder, event, {
      tone: 'quiet',
      text: 'Background task started',
      detail: firstText(metadata, 'description'),
    })
  }
  const row = builder.change(path, event)
  if (row.kind === 'subagent') row.background = flag(metadata, 'is_backgrounded')
  return path
}

function taskEnded(builder: RowsBuilder, event: LogEvent, metadata: JsonObject): RowPath {
  const path = pathOfTask(builder, metadata)
  const ended = text(metadata, 'status') === 'completed'
  const row = path === undefined ? null : builder.changeIf(path, 'subagent', event)
  if (path !== undefined && row !== null) {
    const usage = object(metadata, 'usage')
    row.tokens = (usage === null ? null : number(usage, 'total_tokens')) ?? row.tokens
    if (row.background) {
      builder.running.delete(row.key)
      row.status = ended ? 'done' : 'failed'
      row.result = firstText(metadata, 'summary') ?? row.result
      row.durationMs = (usage === null ? null : number(usage, 'duration_ms')) ?? row.durationMs
    }
    return path
  }
  const content = ended ? 'Background task completed' : 'Background task failed'
  return line(builder, event, { tone: ended ? 'quiet' : 'warn', text: firstText(metadata, 'summary') ?? content })
}

function pathOfTask(builder: RowsBuilder, metadata: JsonObject): RowPath | undefined {
  const id = firstText(metadata, 'tool_use_id')
  return id === null ? undefined : builder.paths.get(`tool:${id}`)
}

function sessionOf(metadata: JsonObject): string | null {
  const agent = object(metadata, 'agent')
  const model = firstText(metadata, 'model') ?? (agent === null ? null : firstText(agent, 'name'))
  const tools = list(metadata, 'tools').length
  const parts = [model, tools > 0 ? `${tools} tools` : null].filter((part) => part !== null)
  return parts.length === 0 ? null : parts.join(', ')
}

/** A short summary of data without a text of its own. */
function brief(data: JsonObject): string | null {
  const parts = Object.entries(data).flatMap(([name, value]) =>
    isObject(value) || Array.isArray(value) || value === null ? [] : [`${name}: ${String(value)}`],
  )
  return parts.length === 0 ? null : parts.slice(0, 4).join(', ').slice(0, 300)
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
