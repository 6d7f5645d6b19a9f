import {
  aboutSubagent,
  isSameCall,
  output,
  readDecision,
  rowOf,
  tokens,
  toolName,
  toolUseId,
  type CallEvent,
  type DecisionEvent,
  type EndEvent,
  type ResultEvent,
  type ToolEvent,
} from './calls'
import { base, type RowsBuilder, type RowPath } from './rows-builder'
import type { LogEvent } from './event'
import { readChange } from './files'
import { isPlanTool, plan, planToolCompleted } from './plans'
import { flag, isOmitted, json, longText, number, object, someNumber, someText, text } from './read'
import type { SkillRow, SubagentRow, ToolRow } from './rows'

// A call and its completion are one row, at the position of the call. They are matched only by the id of the call: the
// same command may run twice, and the same file may be edited twice.

/** A tool, a sub-agent or a skill is called. */
export function called(builder: RowsBuilder, event: CallEvent): RowPath | null {
  const id = toolUseId(event)
  if (isPlanTool(toolName(event))) return plan(builder, event)
  const known = id === null ? undefined : builder.paths.get(`tool:${id}`)
  if (known !== undefined) return calledLate(builder, event, known)
  return begin(builder, event)
}

export function ended(builder: RowsBuilder, event: EndEvent): RowPath | null {
  const id = toolUseId(event)
  const known = id === null ? matching(builder, event) : builder.paths.get(`tool:${id}`)
  if (known !== undefined && builder.at(known).kind === 'plan') return planToolCompleted(builder, event, known)
  if (known === undefined && isPlanTool(toolName(event)) && !flag(event.data, 'is_error')) return plan(builder, event)
  const path = known ?? begin(builder, event)
  builder.running.delete(builder.at(path).key)
  builder.unconfirmed = builder.unconfirmed.filter((each) => builder.at(each) !== builder.at(path))
  finish(builder, event, path)
  return collapse(builder, event, path)
}

/** A tool result without a completion: from the tools of a model provider, or from workers that send both. */
export function resultReceived(builder: RowsBuilder, event: ResultEvent): RowPath {
  const id = toolUseId(event)
  const known = id === null ? undefined : builder.paths.get(`tool:${id}`)
  const path = known ?? begin(builder, event)
  const row = builder.change(path, event)
  const wasRunning = builder.running.delete(row.key)
  if (wasRunning) builder.unconfirmed = builder.remember(builder.unconfirmed, path)
  if (!wasRunning && 'status' in row && row.status !== 'interrupted') return path
  const { text: result, rest } = longText(event, 'result', 'full_result')
  const failed = flag(event.data, 'is_error')
  if (row.kind === 'tool') {
    row.output = text(event.data, 'result') === null ? json(event.data, 'result') : result
    row.status = failed ? (row.permission?.allowed === false ? 'denied' : 'failed') : 'done'
    row.rest = rest ?? row.rest
  } else if (row.kind === 'subagent' && !row.background) {
    Object.assign(row, { result, rest, status: failed ? 'failed' : 'done' } satisfies Partial<SubagentRow>)
  } else if (row.kind === 'skill') {
    Object.assign(row, { output: result, rest, status: failed ? 'failed' : 'done' } satisfies Partial<SkillRow>)
  }
  return path
}

/** A permission decision about a tool call. */
export function decided(builder: RowsBuilder, event: DecisionEvent): RowPath {
  const { id, tool, allowed, reason } = readDecision(event)
  const path = id === null ? undefined : builder.paths.get(`tool:${id}`)
  if (path !== undefined) {
    const row = builder.changeIf(path, 'tool', event)
    if (row !== null) {
      row.permission = { allowed, reason }
      if (!allowed && row.status === 'failed') row.status = 'denied'
      return path
    }
    // Sub-agents, skills and plans have no field for it, and an allowed call needs no extra line.
    if (allowed) {
      builder.change(path, event)
      return path
    }
  }
  return builder.add({
    ...base(event),
    kind: 'line',
    tone: allowed ? 'quiet' : 'warn',
    text: allowed ? `${tool} was allowed` : `${tool} was denied`,
    detail: reason,
    eventType: event.type,
  })
}

/** A file change, which belongs to the tool call that made it. */
export function edited(builder: RowsBuilder, event: LogEvent<'agent.file_edited'>): RowPath {
  const change = readChange(event)
  const path = change.toolUseId === null ? undefined : builder.paths.get(`tool:${change.toolUseId}`)
  if (path !== undefined) {
    const row = builder.changeIf(path, 'tool', event)
    if (row !== null) {
      row.files = [...row.files, change]
      return path
    }
  }
  const inSubagent = path !== undefined && builder.at(path).kind === 'subagent' ? change.toolUseId : null
  const row = base(event)
  return builder.add({ ...row, parent: row.parent ?? inSubagent, kind: 'file', change })
}

/**
 * Marks running rows as interrupted when the agent or its turn ends. The end of a turn keeps background work running.
 * A completion that arrives later still counts.
 */
export function interruptRunning(builder: RowsBuilder, event: LogEvent, what: 'everything' | 'turn'): void {
  for (const [key, path] of builder.running) {
    // A server outlives its agent and ends with the sandbox: see `previews.ts`.
    if (builder.at(path).kind === 'preview') continue
    if (what === 'turn' && isInBackground(builder, path)) continue
    builder.running.delete(key)
    const row = builder.change(path, event)
    if (row.kind === 'tool' || row.kind === 'subagent' || row.kind === 'skill') row.status = 'interrupted'
  }
}

function isInBackground(builder: RowsBuilder, path: RowPath): boolean {
  for (let each: RowPath | null = path; each !== null; each = each.within) {
    const row = builder.at(each)
    if (row.kind === 'subagent' && row.background) return true
  }
  return false
}

/** The call arrived after its completion or its steps, so it completes the existing row. */
function calledLate(builder: RowsBuilder, event: CallEvent, path: RowPath): RowPath {
  const row = builder.change(path, event)
  const parsed = rowOf(event)
  row.turn ??= parsed.turn
  if (row.kind === 'tool' && parsed.kind === 'tool') {
    Object.assign(row, { tool: parsed.tool, title: parsed.title, input: parsed.input } satisfies Partial<ToolRow>)
  } else if (row.kind === 'subagent' && parsed.kind === 'subagent') {
    const { agent, description, prompt } = parsed
    Object.assign(row, { agent, description, prompt } satisfies Partial<SubagentRow>)
  }
  return path
}

function begin(builder: RowsBuilder, event: ToolEvent): RowPath {
  const row = rowOf(event)
  const path = builder.add(row)
  builder.running.set(row.key, path)
  return path
}

function finish(builder: RowsBuilder, event: EndEvent, path: RowPath): void {
  const { data } = event
  const row = builder.change(path, event)
  const failed = flag(data, 'is_error')
  const status = failed ? 'failed' : 'done'
  if (row.kind === 'tool') {
    const response = output(event)
    row.status = failed && row.permission?.allowed === false ? 'denied' : status
    row.durationMs = number(data, 'duration_ms')
    if (response.output !== null || row.output === null) row.output = response.output
    const input = object(data, 'tool_input')
    if (input !== null && Object.keys(row.input).length === 0) row.input = input
    row.rest = response.rest ?? row.rest
  } else if (row.kind === 'skill') {
    const response = output(event)
    Object.assign(row, { status, output: response.output, rest: response.rest } satisfies Partial<SkillRow>)
  } else if (row.kind === 'subagent') {
    finishSubagent(builder, event, path, row)
  }
}

function finishSubagent(builder: RowsBuilder, event: EndEvent, path: RowPath, row: SubagentRow): void {
  const { data } = event
  const about = aboutSubagent(event)
  row.agent ||= about.agent
  row.description ||= about.description
  row.prompt ||= about.prompt
  if (row.background && !flag(data, 'is_error')) {
    // It runs in the background; a notification reports its end.
    builder.running.set(row.key, path)
    return
  }
  row.status = flag(data, 'is_error') ? 'failed' : 'done'
  const response = output(event)
  const result = someText<'agent.subagent_completed'>(data, 'subagent_result')
  row.result = result ?? (typeof response.output === 'string' ? response.output : null)
  const isSubagent = event.type === 'agent.subagent_completed'
  row.rest = isSubagent && isOmitted(event, 'subagent_result') ? event.seq : null
  row.durationMs = someNumber<'agent.subagent_completed'>(data, 'subagent_duration_ms') ?? number(data, 'duration_ms')
  row.costUsd = someNumber<'agent.subagent_completed'>(data, 'subagent_cost_usd')
  const usage = isSubagent ? object(event.data, 'subagent_usage') : null
  row.tokens = (usage === null ? null : tokens(usage)) ?? row.tokens
}

const WRITES = new Set(['Write', 'Edit', 'MultiEdit', 'NotebookEdit'])

/** Merges a write into the previous row if both have the same input and outcome. */
function collapse(builder: RowsBuilder, event: LogEvent, path: RowPath): RowPath {
  const before = builder.before(path)
  if (before === null || event.body !== null) return path
  const [row, last] = [builder.at(path), builder.at(before)]
  if (row.kind !== 'tool' || last.kind !== 'tool' || !isSameWrite(row, last)) return path
  const first = builder.changeIf(before, 'tool', event)
  if (first !== null) {
    first.repeats += 1
    first.files = [...first.files, ...row.files]
  }
  builder.merge(path, before)
  return before
}

function isSameWrite(left: ToolRow, right: ToolRow): boolean {
  const isComplete = left.rest === null && right.rest === null && Object.keys(left.input).length > 0
  return isComplete && WRITES.has(left.tool) && left.status === right.status && isSameCall(left, right)
}

/** The oldest open call of the same tool with the same input: the best guess if a worker sends no ids. */
function matching(builder: RowsBuilder, event: EndEvent): RowPath | undefined {
  const parsed = rowOf(event)
  for (const paths of [builder.running.values(), builder.unconfirmed]) {
    for (const path of paths) if (isSameCall(builder.at(path), parsed)) return path
  }
  return undefined
}
