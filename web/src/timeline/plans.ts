import type { JsonObject, JsonValue } from '../api/contract'
import { base, type RowsBuilder, isSamePath, type RowPath, type Plan, type PlannedItem } from './rows-builder'
import type { LogEvent } from './event'
import { toolName, toolUseId, type CallEvent, type EndEvent } from './calls'
import { firstText, flag, isObject, json, list, object, text } from './read'
import type { PlanItem } from './rows'

// A plan is shown in one row, which is updated until another row follows. Agents send the complete plan (`TodoWrite`,
// ACP) or change single items (`TaskCreate`, `TaskUpdate`).

const PLAN_TOOLS = new Set(['TodoWrite', 'TaskCreate', 'TaskUpdate'])

export function isPlanTool(tool: string | null): boolean {
  return tool !== null && PLAN_TOOLS.has(tool)
}

/** An event that creates or changes a plan. Some workers send only the end of a call. */
type PlanEvent = LogEvent<'agent.plan'> | CallEvent | EndEvent

/** The agent creates or changes its plan. */
export function plan(builder: RowsBuilder, event: PlanEvent): RowPath {
  const owner = ownerOf(event)
  const before = builder.plans.get(owner) ?? { items: [], path: null }
  const items = itemsAfter(before.items, event)
  const path = show(builder, event, before, items)
  builder.plans.set(owner, { items, path })
  const id = event.type === 'agent.plan' ? null : toolUseId(event)
  if (id !== null) builder.paths.set(`tool:${id}`, path)
  return path
}

/** The tool call that changed the plan has completed. The plan shows the result, unless the call failed. */
export function planToolCompleted(builder: RowsBuilder, event: EndEvent, path: RowPath): RowPath {
  const owner = ownerOf(event)
  const current = builder.plans.get(owner)
  const id = toolUseId(event)
  if (!flag(event.data, 'is_error')) {
    builder.change(path, event)
    if (current !== undefined) builder.plans.set(owner, { ...current, items: itemsNumbered(current.items, event) })
    return path
  }
  const items = current === undefined ? [] : itemsNumbered(current.items, event)
  if (current !== undefined && items.length < current.items.length) {
    builder.plans.set(owner, { ...current, items })
    const row = builder.changeIf(path, 'plan', event)
    if (row !== null) row.items = items.map(shown)
  }
  return builder.add({
    ...base(event),
    kind: 'tool',
    tool: text(event.data, 'tool') ?? '',
    title: null,
    toolUseId: id,
    status: 'failed',
    input: object(event.data, 'tool_input') ?? {},
    output: json(event.data, 'tool_response'),
    durationMs: null,
    files: [],
    permission: null,
    repeats: 1,
    rest: null,
  })
}

/** The plan items after an event. */
export function itemsAfter(before: readonly PlannedItem[], event: PlanEvent): readonly PlannedItem[] {
  if (event.type === 'agent.plan') return list(event.data, 'entries').map(readItem)
  const input = object(event.data, 'tool_input') ?? {}
  const tool = toolName(event)
  if (tool === 'TaskCreate') return created(before, input, toolUseId(event))
  if (tool === 'TaskUpdate') return updated(before, input)
  return list(input, 'todos').map(readItem)
}

/** The items after the call that created one has completed: the response contains its id, or an error. */
export function itemsNumbered(before: readonly PlannedItem[], event: EndEvent): readonly PlannedItem[] {
  const call = toolUseId(event)
  if (call === null || !before.some((item) => item.createdBy === call)) return before
  if (flag(event.data, 'is_error')) return before.filter((item) => item.createdBy !== call)
  const id = /#(\w+)/.exec(text(event.data, 'tool_response') ?? '')?.[1]
  return id === undefined ? before : before.map((item) => (item.createdBy === call ? { ...item, id } : item))
}

export function shown({ text, status }: PlannedItem): PlanItem {
  return { text, status }
}

function created(before: readonly PlannedItem[], input: JsonObject, createdBy: string | null): readonly PlannedItem[] {
  const item = { ...readItem(input), createdBy }
  const isDuplicate = before.some(({ text, id }) => createdBy === null && id === null && text === item.text)
  return isDuplicate ? before : [...before, item]
}

function updated(before: readonly PlannedItem[], input: JsonObject): readonly PlannedItem[] {
  const id = text(input, 'taskId')
  // Agents that number items from one, in order, may omit the id.
  const index = before.findIndex((item, position) => (item.id ?? `${position + 1}`) === id)
  const item = before[index]
  if (item === undefined) return before
  if (text(input, 'status') === 'deleted') return before.filter((each) => each !== item)
  const status = text(input, 'status') === null ? item.status : readStatus(input)
  return before.with(index, { ...item, status, text: firstText(input, 'subject') ?? item.text })
}

function show(builder: RowsBuilder, event: LogEvent, before: Plan, items: readonly PlannedItem[]): RowPath {
  const { parent } = base(event)
  const isLast = isSamePath(before.path, builder.last(parent, event))
  if (before.path !== null && (isLast || isEqual(before.items, items))) {
    const row = builder.changeIf(before.path, 'plan', event)
    if (row !== null) {
      row.items = items.map(shown)
      return before.path
    }
  }
  return builder.add({ ...base(event), kind: 'plan', items: items.map(shown) })
}

function isEqual(left: readonly PlannedItem[], right: readonly PlannedItem[]): boolean {
  return (
    left.length === right.length &&
    left.every((item, index) => item.text === right[index]?.text && item.status === right[index].status)
  )
}

function ownerOf(event: LogEvent): string {
  return base(event).parent ?? ''
}

function readItem(value: JsonValue): PlannedItem {
  const data = isObject(value) ? value : {}
  const content =
    typeof value === 'string' ? value : firstText(data, 'content', 'subject', 'title', 'text', 'description')
  return { text: content ?? '', status: readStatus(data), id: firstText(data, 'id'), createdBy: null }
}

function readStatus(data: JsonObject): PlanItem['status'] {
  const status = text(data, 'status')
  return status === 'in_progress' || status === 'completed' ? status : 'pending'
}
