import type { JsonObject, JsonValue } from '../api/contract'
import { base } from './rows-builder'
import type { LogEvent } from './event'
import { firstText, isObject, isOmitted, isSame, longText, number, object, text, toolUseId } from './read'
import type { Row, SkillRow, SubagentRow, ToolRow } from './rows'

// Parses tool events from any worker.

/** The row of a tool, sub-agent or skill call. */
export function rowOf(event: LogEvent): ToolRow | SubagentRow | SkillRow {
  const { data } = event
  const tool = toolName(event)
  if (event.type.startsWith('agent.subagent_') || tool === 'Task' || tool === 'Agent') return subagentOf(event)
  const id = toolUseId(data)
  const row = base(event, id === null ? undefined : `tool:${id}`)
  const input = toolInput(event)
  if (event.type.startsWith('agent.skill_') || tool === 'Skill') {
    const skill = firstText(data, 'skill_name') ?? firstText(input, 'skill', 'command') ?? ''
    return { kind: 'skill', toolUseId: id, skill, status: 'running', input, output: null, rest: null, ...row }
  }
  return {
    kind: 'tool',
    tool: tool ?? '',
    title: firstText(data, 'title'),
    toolUseId: id,
    status: 'running',
    input,
    output: null,
    durationMs: null,
    files: [],
    permission: null,
    repeats: 1,
    rest: isOmitted(event, 'input', 'tool_input') ? event.seq : null,
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

function subagentOf(event: LogEvent): SubagentRow {
  const id = toolUseId(event.data)
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

export function aboutSubagent({ data }: LogEvent): { agent: string; description: string; prompt: string } {
  const input = object(data, 'input') ?? object(data, 'tool_input') ?? {}
  return {
    agent: firstText(data, 'subagent_type') ?? firstText(input, 'subagent_type') ?? '',
    description: firstText(data, 'subagent_description') ?? firstText(input, 'description') ?? '',
    prompt: firstText(data, 'subagent_prompt') ?? firstText(input, 'prompt') ?? '',
  }
}

export function toolName({ data }: LogEvent): string | null {
  return firstText(data, 'tool', 'tool_name')
}

export function toolInput({ data }: LogEvent): JsonObject {
  const input = data['input'] ?? data['tool_input'] ?? null
  if (isObject(input)) return input
  return input === null ? {} : { input }
}

/** The output of a tool, in full if it is not truncated. */
export function output(event: LogEvent): { output: JsonValue; rest: number | null } {
  const response = event.data['tool_response'] ?? null
  const long = longText(event, 'tool_response', 'full_response')
  const isText = response === null || typeof response === 'string'
  if (!isText) return { output: response, rest: null }
  return { output: response === null && long.text === '' ? null : long.text, rest: long.rest }
}

/** The permission decision of the worker, or of the agent itself, which arrives as a system message. */
export function readDecision({ data }: LogEvent): {
  id: string | null
  tool: string
  allowed: boolean
  reason: string | null
} {
  const about = object(data, 'metadata') ?? data
  return {
    id: toolUseId(about),
    tool: firstText(about, 'tool', 'tool_name') ?? 'A tool',
    allowed: text(about, 'decision') === 'allow',
    reason: firstText(about, 'reason', 'message'),
  }
}

export function tokens(usage: JsonObject): number | null {
  const total = number(usage, 'total_tokens')
  if (total !== null) return total
  const fields = ['input_tokens', 'output_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens']
  const known = fields.map((field) => number(usage, field)).filter((value) => value !== null)
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0)
}
