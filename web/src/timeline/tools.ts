import { aboutSubagent, isSameCall, output, readDecision, rowOf, tokens, toolName } from './calls'
import { base, type Draft, type Place } from './draft'
import type { LogEvent } from './event'
import { readChange } from './files'
import { isPlanTool, plan, planned } from './plans'
import { firstText, flag, isOmitted, longText, number, object, text, toolUseId } from './read'
import type { SkillRow, SubagentRow, ToolRow } from './rows'

// A call and its end are one row, at the place of the call. They are matched by the id of the call and nothing else: the
// same command may run twice, and the same file may be edited twice.

/** A tool, a sub-agent or a skill is called. */
export function called(draft: Draft, event: LogEvent): Place | null {
  const id = toolUseId(event.data)
  if (isPlanTool(toolName(event))) return plan(draft, event)
  const known = id === null ? undefined : draft.places.get(`tool:${id}`)
  if (known !== undefined) return calledLate(draft, event, known)
  return begin(draft, event)
}

/** It has ended. */
export function ended(draft: Draft, event: LogEvent): Place | null {
  const id = toolUseId(event.data)
  const known = id === null ? matching(draft, event) : draft.places.get(`tool:${id}`)
  if (known !== undefined && draft.at(known).kind === 'plan') return planned(draft, event, known)
  if (known === undefined && isPlanTool(toolName(event)) && !flag(event.data, 'is_error')) return plan(draft, event)
  const place = known ?? begin(draft, event)
  draft.running.delete(draft.at(place).key)
  draft.unconfirmed = draft.unconfirmed.filter((each) => draft.at(each) !== draft.at(place))
  finish(draft, event, place)
  return collapse(draft, event, place)
}

/** What a tool gave back, told apart from its end: by a provider's own tools, and by workers that tell both. */
export function answered(draft: Draft, event: LogEvent): Place {
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
    row.status = failed ? (row.permission?.allowed === false ? 'refused' : 'failed') : 'done'
    row.rest = rest ?? row.rest
  } else if (row.kind === 'subagent' && !row.background) {
    Object.assign(row, { result, rest, status: failed ? 'failed' : 'done' } satisfies Partial<SubagentRow>)
  } else if (row.kind === 'skill') {
    Object.assign(row, { output: result, rest, status: failed ? 'failed' : 'done' } satisfies Partial<SkillRow>)
  }
  return place
}

/** Somebody decided whether a tool may run. */
export function decided(draft: Draft, event: LogEvent): Place {
  const { id, tool, allowed, reason } = readDecision(event)
  const place = id === null ? undefined : draft.places.get(`tool:${id}`)
  if (place !== undefined) {
    const row = draft.changeIf(place, 'tool', event)
    if (row !== null) {
      row.permission = { allowed, reason }
      if (!allowed && row.status === 'failed') row.status = 'refused'
      return place
    }
    // Sub-agents, skills and plans have no field for it: that they may is no news.
    if (allowed) {
      draft.change(place, event)
      return place
    }
  }
  return draft.add({
    ...base(event),
    kind: 'line',
    tone: allowed ? 'quiet' : 'warn',
    text: allowed ? `${tool} was allowed` : `${tool} was refused`,
    detail: reason,
    eventType: event.type,
  })
}

/** A file has changed: part of the tool that did it. */
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
 * Whatever still runs has ended with its agent, or with its turn, which leaves what works in the background. Nobody
 * will tell how; if somebody does all the same, that counts.
 */
export function cutOff(draft: Draft, event: LogEvent, what: 'everything' | 'turn'): void {
  for (const [key, place] of draft.running) {
    // What listens at a port outlives its agent, and ends with its sandbox: `previews.ts`.
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

/** The row of a call whose end, or whose steps, came first: now more is known of it. */
function calledLate(draft: Draft, event: LogEvent, place: Place): Place {
  const row = draft.change(place, event)
  const made = rowOf(event)
  row.turn ??= made.turn
  if (row.kind === 'tool' && made.kind === 'tool') {
    Object.assign(row, { tool: made.tool, title: made.title, input: made.input } satisfies Partial<ToolRow>)
  } else if (row.kind === 'subagent' && made.kind === 'subagent') {
    const { agent, description, prompt } = made
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
    const told = output(event)
    row.status = failed && row.permission?.allowed === false ? 'refused' : status
    row.durationMs = number(data, 'duration_ms')
    if (told.output !== null || row.output === null) row.output = told.output
    const input = object(data, 'tool_input')
    if (input !== null && Object.keys(row.input).length === 0) row.input = input
    row.rest = told.rest ?? row.rest
  } else if (row.kind === 'skill') {
    const told = output(event)
    Object.assign(row, { status, output: told.output, rest: told.rest } satisfies Partial<SkillRow>)
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
    // It was sent off; a notification says when it is done.
    draft.running.set(row.key, place)
    return
  }
  row.status = flag(data, 'is_error') ? 'failed' : 'done'
  const told = output(event)
  row.result = firstText(data, 'subagent_result') ?? (typeof told.output === 'string' ? told.output : null)
  row.rest = isOmitted(event, 'subagent_result') ? event.seq : null
  row.durationMs = number(data, 'subagent_duration_ms') ?? number(data, 'duration_ms')
  row.costUsd = number(data, 'subagent_cost_usd')
  const usage = object(data, 'subagent_usage')
  row.tokens = (usage === null ? null : tokens(usage)) ?? row.tokens
}

const WRITES = new Set(['Write', 'Edit', 'MultiEdit', 'NotebookEdit'])

/** A write that says the same as the one right before it, and came to the same, is one row with it. */
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

function isSameWrite(one: ToolRow, other: ToolRow): boolean {
  const isWhole = one.rest === null && other.rest === null && Object.keys(one.input).length > 0
  return isWhole && WRITES.has(one.tool) && one.status === other.status && isSameCall(one, other)
}

/** The oldest open use of the same tool with the same input: the best guess where a worker names no ids. */
function matching(draft: Draft, event: LogEvent): Place | undefined {
  const made = rowOf(event)
  for (const places of [draft.running.values(), draft.unconfirmed]) {
    for (const place of places) if (isSameCall(draft.at(place), made)) return place
  }
  return undefined
}
