import type { JsonObject, JsonValue } from '../api/contract'
import { base, type Draft, isSamePlace, type Place, type Plan, type PlannedItem } from './draft'
import type { LogEvent } from './event'
import { firstText, flag, isObject, list, object, text, toolUseId } from './read'
import type { PlanItem } from './rows'

// A plan is shown as it stands, in one row as long as nothing else happens. Agents tell it whole (`TodoWrite`, ACP), or
// item by item (`TaskCreate`, `TaskUpdate`).

const PLAN_TOOLS = new Set(['TodoWrite', 'TaskCreate', 'TaskUpdate'])

export function isPlanTool(tool: string | null): boolean {
  return tool !== null && PLAN_TOOLS.has(tool)
}

/** The agent says what it plans. */
export function plan(draft: Draft, event: LogEvent): Place {
  const owner = ownerOf(event)
  const before = draft.plans.get(owner) ?? { items: [], place: null }
  const items = itemsAfter(before.items, event)
  const place = show(draft, event, before, items)
  draft.plans.set(owner, { items, place })
  const id = toolUseId(event.data)
  if (id !== null) draft.places.set(`tool:${id}`, place)
  return place
}

/** The tool that changed the plan has ended. What came of it is in the plan, unless it failed. */
export function planned(draft: Draft, event: LogEvent, place: Place): Place {
  const owner = ownerOf(event)
  const now = draft.plans.get(owner)
  const id = toolUseId(event.data)
  if (!flag(event.data, 'is_error')) {
    draft.change(place, event)
    if (now !== undefined) draft.plans.set(owner, { ...now, items: itemsNumbered(now.items, event) })
    return place
  }
  const items = now === undefined ? [] : itemsNumbered(now.items, event)
  if (now !== undefined && items.length < now.items.length) {
    draft.plans.set(owner, { ...now, items })
    const row = draft.changeIf(place, 'plan', event)
    if (row !== null) row.items = items.map(shown)
  }
  return draft.add({
    ...base(event),
    kind: 'tool',
    tool: text(event.data, 'tool') ?? '',
    title: null,
    toolUseId: id,
    status: 'failed',
    input: object(event.data, 'tool_input') ?? {},
    output: event.data['tool_response'] ?? null,
    durationMs: null,
    files: [],
    permission: null,
    repeats: 1,
    rest: null,
  })
}

/** The items after an event, for whoever only wants to know the plan. */
export function itemsAfter(before: readonly PlannedItem[], event: LogEvent): readonly PlannedItem[] {
  const input = object(event.data, 'input') ?? object(event.data, 'tool_input') ?? {}
  const tool = firstText(event.data, 'tool', 'tool_name')
  if (tool === 'TaskCreate') return created(before, input, toolUseId(event.data))
  if (tool === 'TaskUpdate') return updated(before, input)
  const entries = tool === 'TodoWrite' ? list(input, 'todos') : list(event.data, 'entries')
  return entries.map(readItem)
}

/** The items when the call that made one has ended: the answer tells its number, or that there is none. */
export function itemsNumbered(before: readonly PlannedItem[], event: LogEvent): readonly PlannedItem[] {
  const call = toolUseId(event.data)
  if (call === null || !before.some((item) => item.madeBy === call)) return before
  if (flag(event.data, 'is_error')) return before.filter((item) => item.madeBy !== call)
  const id = /#(\w+)/.exec(text(event.data, 'tool_response') ?? '')?.[1]
  return id === undefined ? before : before.map((item) => (item.madeBy === call ? { ...item, id } : item))
}

export function shown({ text, status }: PlannedItem): PlanItem {
  return { text, status }
}

function created(before: readonly PlannedItem[], input: JsonObject, madeBy: string | null): readonly PlannedItem[] {
  const item = { ...readItem(input), madeBy }
  const isAgain = before.some(({ text, id }) => madeBy === null && id === null && text === item.text)
  return isAgain ? before : [...before, item]
}

function updated(before: readonly PlannedItem[], input: JsonObject): readonly PlannedItem[] {
  const id = text(input, 'taskId')
  // Whoever numbers from one, in order, need not tell the number.
  const index = before.findIndex((item, position) => (item.id ?? `${position + 1}`) === id)
  const item = before[index]
  if (item === undefined) return before
  if (text(input, 'status') === 'deleted') return before.filter((each) => each !== item)
  const status = text(input, 'status') === null ? item.status : readStatus(input)
  return before.with(index, { ...item, status, text: firstText(input, 'subject') ?? item.text })
}

function show(draft: Draft, event: LogEvent, before: Plan, items: readonly PlannedItem[]): Place {
  const { parent } = base(event)
  const isLast = isSamePlace(before.place, draft.last(parent, event))
  if (before.place !== null && (isLast || isEqual(before.items, items))) {
    const row = draft.changeIf(before.place, 'plan', event)
    if (row !== null) {
      row.items = items.map(shown)
      return before.place
    }
  }
  return draft.add({ ...base(event), kind: 'plan', items: items.map(shown) })
}

function isEqual(one: readonly PlannedItem[], other: readonly PlannedItem[]): boolean {
  return (
    one.length === other.length &&
    one.every((item, index) => item.text === other[index]?.text && item.status === other[index].status)
  )
}

function ownerOf(event: LogEvent): string {
  return base(event).parent ?? ''
}

function readItem(value: JsonValue): PlannedItem {
  const data = isObject(value) ? value : {}
  const words = typeof value === 'string' ? value : firstText(data, 'content', 'subject', 'title', 'text', 'description')
  return { text: words ?? '', status: readStatus(data), id: firstText(data, 'id'), madeBy: null }
}

function readStatus(data: JsonObject): PlanItem['status'] {
  const status = text(data, 'status')
  return status === 'in_progress' || status === 'completed' ? status : 'pending'
}
