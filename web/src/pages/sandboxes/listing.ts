import type { SandboxOut, TaskOut, TicketOut } from '../../api/contract'
import { ofSandbox, ofTask, ofTicket, type StatusGroup, type Status } from '../../ui/statuses'
import { paths } from '../../util/paths'
import { describeReason } from '../../util/reasons'

/** An entry of the list: a task, a ticket without a task, or a sandbox without a task. */
export interface Card {
  readonly key: string
  readonly title: string
  readonly type: string
  readonly status: Status
  readonly taskId: string | null
  readonly sandboxId: string | null
  readonly createdAt: string
  /** Sorts the list by the creation time of the task, so that attempts stay together. */
  readonly sortKey: string
  /** Number of the attempt; 0 before the first. */
  readonly attempt: number
  readonly error: string | null
  /** `null` while there is nothing to open. */
  readonly href: string | null
  readonly can: { readonly fail: boolean; readonly stop: boolean; readonly retry: boolean }
  /** Lower-case text for the search. */
  readonly searchText: string
}

export const FILTERS = ['all', 'running', 'validating', 'awaiting', 'pending', 'completed', 'failed'] as const
export type Filter = (typeof FILTERS)[number]

export interface Lists {
  readonly tasks: Iterable<TaskOut>
  /** Whether these are all tasks. */
  readonly allTasks: boolean
  readonly sandboxes: Iterable<SandboxOut>
  readonly ticketsToApprove: Iterable<TicketOut>
}

/** Every card, newest first. */
export function listing({ tasks, allTasks, sandboxes, ticketsToApprove }: Lists): Card[] {
  const cards: Card[] = []
  const named = new Set<string>()
  const byPrefix = new Map<string, TaskOut>()
  for (const task of tasks) {
    cards.push(cardOfTask(task))
    if (task.sandbox_id !== null) named.add(task.sandbox_id)
    byPrefix.set(task.id.slice(0, TASK_PREFIX_LENGTH), task)
  }
  for (const ticket of ticketsToApprove) {
    if (ticket.approval_status === 'pending_review') cards.push(cardOfTicket(ticket))
  }
  for (const sandbox of sandboxes) {
    if (!named.has(sandbox.sandbox_id) && isStandalone(sandbox, allTasks)) cards.push(cardOfSandbox(sandbox, byPrefix))
  }
  return cards.sort((left, right) => compare(right.sortKey, left.sortKey))
}

export function search(cards: readonly Card[], wanted: string): readonly Card[] {
  const query = wanted.trim().toLowerCase()
  return query === '' ? cards : cards.filter((card) => card.searchText.includes(query))
}

export function filter(cards: readonly Card[], wanted: Filter): readonly Card[] {
  return wanted === 'all' ? cards : cards.filter((card) => filterOf(card.status.group) === wanted)
}

export function counts(cards: readonly Card[]): Record<Filter, number> {
  const found: Record<Filter, number> = {
    all: cards.length,
    running: 0,
    validating: 0,
    awaiting: 0,
    pending: 0,
    completed: 0,
    failed: 0,
  }
  for (const card of cards) found[filterOf(card.status.group)] += 1
  return found
}

/** Cancelled work is listed under Failed; its card still says Cancelled. */
function filterOf(group: StatusGroup): Exclude<Filter, 'all'> {
  return group === 'cancelled' ? 'failed' : group
}

function cardOfTask(task: TaskOut): Card {
  const status = ofTask(task)
  const hasEnded = task.status === 'completed' || task.status === 'failed' || task.status === 'cancelled'
  return {
    key: `task:${task.id}`,
    title: task.title === '' ? `Task ${task.id}` : task.title,
    type: labelOf(task.task_type),
    status,
    taskId: task.id,
    sandboxId: task.sandbox_id,
    createdAt: task.created_at,
    sortKey: `${task.created_at} ${task.id} ~`,
    attempt: task.attempt,
    // While a task runs again, the error of its last attempt is outdated.
    error: status.group === 'failed' || task.status === 'pending' ? reasonOf(task.error_message) : null,
    href: hrefOfTask(task),
    can: { fail: !hasEnded, stop: !hasEnded, retry: task.status === 'failed' || task.status === 'cancelled' },
    searchText: searchTextOf(task.title, task.task_type, labelOf(task.task_type), task.id, task.sandbox_id),
  }
}

function hrefOfTask(task: TaskOut): string | null {
  if (task.sandbox_id !== null) return paths.sandbox(task.sandbox_id)
  return task.ticket_id === null ? null : paths.progress(task.ticket_id)
}

function cardOfTicket(ticket: TicketOut): Card {
  return {
    key: `ticket:${ticket.id}`,
    title: ticket.title,
    type: 'Ticket',
    status: ofTicket(ticket),
    taskId: null,
    sandboxId: null,
    createdAt: ticket.created_at,
    sortKey: `${ticket.created_at} ${ticket.id}`,
    attempt: 0,
    error: null,
    href: paths.progress(ticket.id),
    can: { fail: false, stop: false, retry: false },
    searchText: searchTextOf(ticket.title, 'ticket', ticket.id),
  }
}

function cardOfSandbox(sandbox: SandboxOut, byPrefix: ReadonlyMap<string, TaskOut>): Card {
  const status = ofSandbox(sandbox)
  const match = TASK_SANDBOX_ID.exec(sandbox.sandbox_id)
  const task = byPrefix.get(match?.[1] ?? '')
  const title = sandbox.name ?? task?.title ?? `Sandbox ${sandbox.sandbox_id}`
  const type = match === null ? 'Sandbox' : 'Earlier attempt'
  const hasEnded = status.group === 'completed' || status.group === 'failed' || status.group === 'cancelled'
  return {
    key: `sandbox:${sandbox.sandbox_id}`,
    title,
    type,
    status,
    taskId: null,
    sandboxId: sandbox.sandbox_id,
    createdAt: sandbox.created_at,
    // Sorts below its task, whose key ends with the last printable ASCII character.
    sortKey: task === undefined ? sandbox.created_at : `${task.created_at} ${task.id} ${sandbox.created_at}`,
    attempt: match === null ? 0 : Number(match[2]),
    error: status.group === 'failed' ? reasonOf(sandbox.ended?.reason) : null,
    href: paths.sandbox(sandbox.sandbox_id),
    can: { fail: false, stop: !hasEnded, retry: false },
    searchText: searchTextOf(title, type, sandbox.sandbox_id),
  }
}

/**
 * The id of a task's sandbox contains the task id and the attempt. A sandbox that is being created belongs to a task
 * whose update has not arrived yet. Before all tasks are loaded, a sandbox with such an id cannot be classified.
 */
function isStandalone(sandbox: SandboxOut, allTasks: boolean): boolean {
  if (sandbox.status === 'pending' || sandbox.status === 'creating') return false
  return allTasks || TASK_SANDBOX_ID.exec(sandbox.sandbox_id) === null
}

const TASK_PREFIX_LENGTH = 24
const TASK_SANDBOX_ID = /^(.{1,24})-(\d+)-[0-9a-f]{6}$/

const reasonOf = (reason: string | null | undefined) => (reason == null ? null : describeReason(reason))

/** "implement_feature" becomes "Implement feature". */
function labelOf(type: string): string {
  const label = type.replaceAll(/[_-]+/g, ' ').trim()
  return label.charAt(0).toUpperCase() + label.slice(1)
}

const searchTextOf = (...parts: (string | null)[]) =>
  parts
    .filter((part) => part !== null)
    // A match must not span two fields.
    .join('\n')
    .toLowerCase()

const compare = (left: string, right: string) => (left < right ? -1 : left > right ? 1 : 0)
