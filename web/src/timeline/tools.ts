import { aboutSubagent, isSameCall, output, readDecision, rowOf, tokens, toolName } from './calls'
import { base, type Draft, type Place } from './draft'
import type { LogEvent } from './event'
import { readChange } from './files'
import { isPlanTool, plan, planToolCompleted } from './plans'
import { firstText, flag, isOmitted, longText, number, object, text, toolUseId } from './read'
import type { SkillRow, SubagentRow, ToolRow } from './rows'

// A call and its completion are one row, at the position of the call. They are matched only by the id of the call: the
// same command may run twice, and the same file may be edited twice.

/** A tool, a sub-agent or a skill is called. */
export function called(draft: Draft, event: LogEvent): Place | null {
  const id = toolUseId(event.data)
  if (isPlanTool(toolName(event))) return plan(draft, event)
  const known = id === null ? undefined : draft.places.get(`tool:${id}`)
  if (known !== undefined) return calledLate(draft, event, known)
  return begin(draft, event)
}

export function ended(draft: Draft, event: LogEvent): Place | null {
  const id = toolUseId(event.data)
  const known = id === null ? matching(draft, event) : draft.places.get(`tool:${id}`)
  if (known !== undefined && draft.at(known).kind === 'plan') return planToolCompleted(draft, event, known)
  if (known === undefined && isPlanTool(toolName(event)) && !flag(event.data, 'is_error')) return plan(draft, event)
  const place = known ?? begin(draft, event)
  draft.running.delete(draft.at(place).key)
  draft.unconfirmed = draft.unconfirmed.filter((each) => draft.at(each) !== draft.at(place))
  finish(draft, event, place)
  return collapse(draft, event, place)
}

/** A tool result without a completion: from the tools of a model provider, or from workers that send both. */
export function resultReceived(draft: Draft, event: LogEvent): Place {
  const id = toolUseId(event.data)
  const known = id === null ? undefined : draft.places.get(`tool:${id}`)
  const place = known ?? begin(draft, event)
  const row = draft.change(place, event)
  const wasRunning = draft.running.delete(row.key)
  if (wasRunning) draft.unconfirmed = draft.remember(draft.unconfirmed, place)
  if (!wasRunning && 'status' in row && row.status !== 'interrupted') return place
  const field = event.data['result'] === undefined ? 'content' : 'result'
  const { text: result, rest } = longText(event, field, 'full_result')
  const failed = flag(event.data, 'is_error')
  if (row.kind === 'tool') {
    row.output = text(event.data, field) === null ? (event.data[field] ?? null) : result
    row.status = failed ? (row.permission?.allowed === false ? 'denied' : 'failed') : 'done'
    row.rest = rest ?? row.rest
  } else if (row.kind === 'subagent' && !row.background) {
    Object.assign(row, { result, rest, status: failed ? 'failed' : 'done' } satisfies Partial<SubagentRow>)
  } else if (row.kind === 'skill') {
    Object.assign(row, { output: result, rest, status: failed ? 'failed' : 'done' } satisfies Partial<SkillRow>)
  }
  return place
}

/** A permission decision about a tool call. */
export function decided(draft: Draft, event: LogEvent): Place {
  const { id, tool, allowed, reason } = readDecision(event)
  const place = id === null ? undefined : draft.places.get(`tool:${id}`)
  if (place !== undefined) {
    const row = draft.changeIf(place, 'tool', event)
    if (row !== null) {
      row.permission = { allowed, reason }
      if (!allowed && row.status === 'failed') row.status = 'denied'
      return place
    }
    // Sub-agents, skills and plans have no field for it, and an allowed call needs no extra line.
    if (allowed) {
      draft.change(place, event)
      return place
    }
  }
  return draft.add({
    ...base(event),
    kind: 'line',
    tone: allowed ? 'quiet' : 'warn',
    text: allowed ? `${tool} was allowed` : `${tool} was denied`,
    detail: reason,
    eventType: event.type,
  })
}

/** A file change, which belongs to the tool call that made it. */
export function edited(draft: Draft, event: LogEvent): Place {
  const change = readChange(event)
  const place = change.toolUseId === null ? undefined : draft.places.get(`tool:${change.toolUseId}`)
  if (place !== undefined) {
    const row = draft.changeIf(place, 'tool', event)
    if (row !== null) {
      row.files = [...row.files, change]
      return place
    }
  }
  const inSubagent = place !== undefined && draft.at(place).kind === 'subagent' ? change.toolUseId : null
  const row = base(event)
  return draft.add({ ...row, parent: row.parent ?? inSubagent, kind: 'file', change })
}

/**
 * Marks running rows as interrupted when the agent or its turn ends. The end of a turn keeps background work running.
 * A completion that arrives later still counts.
 */
export function interruptRunning(draft: Draft, event: LogEvent, what: 'everything' | 'turn'): void {
  for (const [key, place] of draft.running) {
    // A server outlives its agent and ends with the sandbox: see `previews.ts`.
    if (draft.at(place).kind === 'preview') continue
    if (what === 'turn' && isInBackground(draft, place)) continue
    draft.running.delete(key)
    const row = draft.change(place, event)
    if (row.kind === 'tool' || row.kind === 'subagent' || row.kind === 'skill') row.status = 'interrupted'
  }
}

function isInBackground(draft: Draft, place: Place): boolean {
  for (let each: Place | null = place; each !== null; each = each.within) {
    const row = draft.at(each)
    if (row.kind === 'subagent' && row.background) return true
  }
  return false
}

/** The call arrived after its completion or its steps, so it completes the existing row. */
function calledLate(draft: Draft, event: LogEvent, place: Place): Place {
  const row = draft.change(place, event)
  const parsed = rowOf(event)
  row.turn ??= parsed.turn
  if (row.kind === 'tool' && parsed.kind === 'tool') {
    Object.assign(row, { tool: parsed.tool, title: parsed.title, input: parsed.input } satisfies Partial<ToolRow>)
  } else if (row.kind === 'subagent' && parsed.kind === 'subagent') {
    const { agent, description, prompt } = parsed
    Object.assign(row, { agent, description, prompt } satisfies Partial<SubagentRow>)
  }
  return place
}

function begin(draft: Draft, event: LogEvent): Place {
  const row = rowOf(event)
  const place = draft.add(row)
  draft.running.set(row.key, place)
  return place
}

function finish(draft: Draft, event: LogEvent, place: Place): void {
  const { data } = event
  const row = draft.change(place, event)
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
    finishSubagent(draft, event, place, row)
  }
}

function finishSubagent(draft: Draft, event: LogEvent, place: Place, row: SubagentRow): void {
  const { data } = event
  const about = aboutSubagent(event)
  row.agent ||= about.agent
  row.description ||= about.description
  row.prompt ||= about.prompt
  if (row.background && !flag(data, 'is_error')) {
    // It runs in the background; a notification reports its end.
    draft.running.set(row.key, place)
    return
  }
  row.status = flag(data, 'is_error') ? 'failed' : 'done'
  const response = output(event)
  row.result = firstText(data, 'subagent_result') ?? (typeof response.output === 'string' ? response.output : null)
  row.rest = isOmitted(event, 'subagent_result') ? event.seq : null
  row.durationMs = number(data, 'subagent_duration_ms') ?? number(data, 'duration_ms')
  row.costUsd = number(data, 'subagent_cost_usd')
  const usage = object(data, 'subagent_usage')
  row.tokens = (usage === null ? null : tokens(usage)) ?? row.tokens
}

const WRITES = new Set(['Write', 'Edit', 'MultiEdit', 'NotebookEdit'])

/** Merges a write into the previous row if both have the same input and outcome. */
function collapse(draft: Draft, event: LogEvent, place: Place): Place {
  const before = draft.before(place)
  if (before === null || event.body !== null) return place
  const [row, last] = [draft.at(place), draft.at(before)]
  if (row.kind !== 'tool' || last.kind !== 'tool' || !isSameWrite(row, last)) return place
  const first = draft.changeIf(before, 'tool', event)
  if (first !== null) {
    first.repeats += 1
    first.files = [...first.files, ...row.files]
  }
  draft.merge(place, before)
  return before
}

function isSameWrite(left: ToolRow, right: ToolRow): boolean {
  const isComplete = left.rest === null && right.rest === null && Object.keys(left.input).length > 0
  return isComplete && WRITES.has(left.tool) && left.status === right.status && isSameCall(left, right)
}

/** The oldest open call of the same tool with the same input: the best guess if a worker sends no ids. */
function matching(draft: Draft, event: LogEvent): Place | undefined {
  const parsed = rowOf(event)
  for (const places of [draft.running.values(), draft.unconfirmed]) {
    for (const place of places) if (isSameCall(draft.at(place), parsed)) return place
  }
  return undefined
}
