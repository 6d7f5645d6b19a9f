import type { JsonObject, JsonValue } from '../api/contract'
import { base } from './rows-builder'
import type { LogEvent } from './event'
import { firstText, isObject, isOmitted, isSame, json, longText, number, object, someText, text } from './read'
import type { Row, SkillRow, SubagentRow, ToolRow } from './rows'

// Parses tool events from any worker.

/** A tool, a sub-agent or a skill is called. */
export type CallEvent = LogEvent<'agent.tool_use' | 'agent.subagent_invoked' | 'agent.skill_invoked'>

/** A tool, a sub-agent or a skill has ended. */
export type EndEvent = LogEvent<'agent.tool_completed' | 'agent.subagent_completed' | 'agent.skill_completed'>

/** A tool result without a completion. */
export type ResultEvent = LogEvent<'agent.tool_result' | 'agent.user_tool_result'>

export type ToolEvent = CallEvent | EndEvent | ResultEvent

type SkillEventType = 'agent.skill_invoked' | 'agent.skill_completed'

type SubagentEventType = 'agent.subagent_invoked' | 'agent.subagent_completed'

export function toolUseId({ data }: ToolEvent): string | null {
  return firstText(data, 'tool_use_id')
}

/** The row of a tool, sub-agent or skill call. */
export function rowOf(event: ToolEvent): ToolRow | SubagentRow | SkillRow {
  const { data } = event
  const tool = toolName(event)
  if (event.type.startsWith('agent.subagent_') || tool === 'Task' || tool === 'Agent') return subagentOf(event)
  const id = toolUseId(event)
  const row = base(event, id === null ? undefined : `tool:${id}`)
  const input = toolInput(event)
  if (event.type.startsWith('agent.skill_') || tool === 'Skill') {
    const skill = someText<SkillEventType>(data, 'skill_name') ?? firstText(input, 'skill', 'command') ?? ''
    return { kind: 'skill', toolUseId: id, skill, status: 'running', input, output: null, rest: null, ...row }
  }
  return {
    kind: 'tool',
    tool: tool ?? '',
    title: someText<'agent.tool_use'>(data, 'title'),
    toolUseId: id,
    status: 'running',
    input,
    output: null,
    durationMs: null,
    files: [],
    permission: null,
    repeats: 1,
    rest: !isResult(event) && isOmitted(event, 'tool_input') ? event.seq : null,
    ...row,
  }
}

export function isSameCall(left: Row, right: Row): boolean {
  if (left.kind === 'tool' && right.kind === 'tool') return left.tool === right.tool && isSame(left.input, right.input)
  if (left.kind === 'skill' && right.kind === 'skill')
    return left.skill === right.skill && isSame(left.input, right.input)
  return (
    left.kind === 'subagent' && right.kind === 'subagent' && left.prompt === right.prompt && left.agent === right.agent
  )
}

function subagentOf(event: ToolEvent): SubagentRow {
  const id = toolUseId(event)
  return {
    kind: 'subagent',
    toolUseId: id,
    status: 'running',
    background: false,
    result: null,
    rest: null,
    tokens: null,
    costUsd: null,
    durationMs: null,
    steps: [],
    ...aboutSubagent(event),
    ...base(event, id === null ? undefined : `tool:${id}`),
  }
}

export function aboutSubagent(event: ToolEvent): { agent: string; description: string; prompt: string } {
  const { data } = event
  const input = isResult(event) ? {} : (object(event.data, 'tool_input') ?? {})
  return {
    agent: someText<SubagentEventType>(data, 'subagent_type') ?? firstText(input, 'subagent_type') ?? '',
    description: someText<SubagentEventType>(data, 'subagent_description') ?? firstText(input, 'description') ?? '',
    prompt: someText<SubagentEventType>(data, 'subagent_prompt') ?? firstText(input, 'prompt') ?? '',
  }
}

export function toolName(event: ToolEvent): string | null {
  return isResult(event) ? null : firstText(event.data, 'tool')
}

export function toolInput(event: ToolEvent): JsonObject {
  const input = isResult(event) ? null : json(event.data, 'tool_input')
  if (isObject(input)) return input
  return input === null ? {} : { input }
}

function isResult(event: ToolEvent): event is ResultEvent {
  return event.type === 'agent.tool_result' || event.type === 'agent.user_tool_result'
}

/** The output of a tool, in full if it is not truncated. */
export function output(event: EndEvent): { output: JsonValue; rest: number | null } {
  const response = json(event.data, 'tool_response')
  const long = longText(event, 'tool_response', 'full_result')
  const isText = response === null || typeof response === 'string'
  if (!isText) return { output: response, rest: null }
  return { output: response === null && long.text === '' ? null : long.text, rest: long.rest }
}

/** The permission decision of the worker, or of the agent itself, which arrives as a system message. */
export function readDecision(event: DecisionEvent): {
  id: string | null
  tool: string
  allowed: boolean
  reason: string | null
} {
  if (event.type === 'agent.system_message') {
    const about = object(event.data, 'metadata') ?? {}
    return {
      id: firstText(about, 'tool_use_id', 'tool_id'),
      tool: firstText(about, 'tool', 'tool_name') ?? 'A tool',
      allowed: text(about, 'decision') === 'allow',
      reason: firstText(about, 'reason', 'message'),
    }
  }
  const { data } = event
  return {
    id: firstText(data, 'tool_use_id'),
    tool: firstText(data, 'tool') ?? 'A tool',
    allowed: text(data, 'decision') === 'allow',
    reason: firstText(data, 'reason'),
  }
}

export type DecisionEvent = LogEvent<'agent.permission_decided' | 'agent.system_message'>

export function tokens(usage: JsonObject): number | null {
  const total = number(usage, 'total_tokens')
  if (total !== null) return total
  const fields = ['input_tokens', 'output_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens']
  const known = fields.map((field) => number(usage, field)).filter((value) => value !== null)
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0)
}
