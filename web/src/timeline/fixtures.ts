import type { JsonObject, Source } from '../api/contract'
import { logEvent, type LogEvent } from './event'

// Sample events in the shapes that the worker and the control plane emit.

/** An event before it has a position in a log. */
export interface EventInput {
  type: string
  data: JsonObject
  source?: Source
  omitted?: string[]
}

/** A log of these events, numbered from one and a second apart. */
export function log(...events: EventInput[]): LogEvent[] {
  return numbered(events, 1)
}

/** Like `log`, for a log whose beginning is not loaded. */
export function numbered(events: readonly EventInput[], first: number): LogEvent[] {
  return events.map(({ type, data, source = 'agent', omitted }, index) =>
    logEvent({
      seq: first + index,
      id: `e-${first + index}`,
      type,
      raw: data,
      source,
      at: new Date(Date.UTC(2026, 0, 1) + (first + index) * 1000).toISOString(),
      body: omitted === undefined ? null : { size_bytes: 300_000, omitted },
    }),
  )
}

export const eventOf = (type: string, data: JsonObject = {}): EventInput => ({ type, data })

const within = (parent?: string): JsonObject => (parent === undefined ? {} : { parent_tool_use_id: parent })

export const call = (id: string, tool: string, input: JsonObject, parent?: string): EventInput =>
  eventOf('agent.tool_use', {
    event_subtype: 'tool_use',
    tool,
    tool_use_id: id,
    tool_input: input,
    turn: 1,
    ...within(parent),
  })

export const completion = (
  id: string,
  tool: string,
  input: JsonObject,
  response = 'ok',
  more: JsonObject = {},
): EventInput =>
  eventOf('agent.tool_completed', {
    tool,
    tool_use_id: id,
    tool_input: input,
    tool_response: response,
    is_error: false,
    duration_ms: 12,
    turn: 1,
    ...more,
  })

export const edit = (path: string, id: string | null, more: JsonObject = {}): EventInput => {
  const diff = `--- a/${path}\n+++ b/${path}\n@@ -1 +1 @@\n-one\n+two\n`
  const size = { full_diff: diff, full_diff_available: true, full_diff_size: diff.length }
  return eventOf('agent.file_edited', {
    tool_use_id: id,
    file_path: path,
    change_type: 'modified',
    lines_added: 1,
    lines_removed: 1,
    diff_preview: diff,
    ...size,
    binary: false,
    turn: 1,
    ...more,
  })
}

export const text = (content: string, parent?: string): EventInput =>
  eventOf('agent.message', { content, content_length: content.length, turn: 1, ...within(parent) })

export const thinking = (content: string, parent?: string): EventInput =>
  eventOf('agent.thinking', { content, turn: 1, ...within(parent) })

/** The end of a model message. It has no row of its own. */
export const assistantMessage = (parent?: string): EventInput =>
  eventOf('agent.assistant_message', {
    model: 'opus',
    stop_reason: 'tool_use',
    block_count: 1,
    turn: 1,
    ...within(parent),
  })

export const invoked = (id: string, prompt: string, parent?: string): EventInput =>
  eventOf('agent.subagent_invoked', {
    subagent_type: 'explorer',
    subagent_description: 'Look around',
    subagent_prompt: prompt,
    tool: 'Task',
    input: { description: 'Look around', prompt, subagent_type: 'explorer' },
    tool_use_id: id,
    turn: 1,
    ...within(parent),
  })

export const returned = (id: string, prompt: string, result = 'Found it.', parent?: string): EventInput =>
  eventOf('agent.subagent_completed', {
    subagent_type: 'explorer',
    subagent_description: 'Look around',
    subagent_prompt: prompt,
    subagent_result: result,
    subagent_usage: { input_tokens: 100, output_tokens: 20 },
    subagent_duration_ms: 700,
    tool: 'Task',
    tool_response: result,
    is_error: false,
    tool_use_id: id,
    ...within(parent),
  })

export const system = (subtype: string, metadata: JsonObject): EventInput =>
  eventOf('agent.system_message', { subtype, metadata, turn: 1 })

export const queued = (id: string, content: string, type = 'user_message'): EventInput => ({
  ...eventOf('message.queued', {
    message_id: id,
    message_type: type,
    content,
    priority: 'normal',
    sender: { kind: 'user', id: 'u-1' },
  }),
  source: 'user',
})

/** An undeliverable message is sent again; `version` is at least 2. */
export const queuedAgain = (id: string, content: string, version: number): EventInput => {
  const event = queued(id, content)
  return { ...event, data: { ...event.data, version, by: { kind: 'user', id: 'u-2' } } }
}

export const receipt = (id: string, state: string, more: JsonObject = {}): EventInput =>
  eventOf(`message.${state}`, { message_id: id, ...more })

export const injected = (id: string, content: string): EventInput =>
  eventOf('agent.message_injected', {
    message_id: id,
    message_uuid: `uuid-${id}`,
    message_type: 'user_message',
    content,
    sender: { kind: 'user', id: 'u-1' },
    turn: 1,
  })

export const userMessage = (uuid: string | null, content: string, more: JsonObject = {}): EventInput =>
  eventOf('agent.user_message', { content, content_length: content.length, message_uuid: uuid, turn: 0, ...more })

export const todo = (id: string, ...items: [text: string, status: string][]): EventInput =>
  call(id, 'TodoWrite', { todos: items.map(([content, status]) => ({ content, status, activeForm: content })) })

export const decided = (id: string, decision: string, reason?: string): EventInput =>
  eventOf('agent.permission_decided', {
    tool: 'Bash',
    tool_use_id: id,
    mode: 'acceptEdits',
    decision,
    ...(reason === undefined ? {} : { reason }),
  })

export const turn = (more: JsonObject = {}): EventInput =>
  eventOf('agent.turn_completed', {
    success: true,
    interrupted: false,
    turn: 2,
    turns: 2,
    cost_usd: 0.25,
    total_cost_usd: 0.25,
    input_tokens: 100,
    output_tokens: 20,
    cache_read_tokens: 5,
    cache_write_tokens: 7,
    duration_ms: 900,
    session_id: 's-1',
    ...more,
  })

export const started = (): EventInput =>
  eventOf('agent.started', { sdk: 'claude', model: 'opus', task: 'Fix it', session_id: 's-1', is_resuming: false })

export const done = (more: JsonObject = {}): EventInput =>
  eventOf('agent.completed', {
    success: true,
    stop_reason: 'completed',
    cost_usd: 0.25,
    total_cost_usd: 0.25,
    input_tokens: 100,
    output_tokens: 20,
    session_id: 's-1',
    ...more,
  })
