import type { SandboxOut, TaskOut, TicketOut } from '../../api/contract'
import { ofSandbox, ofTask, ofTicket, type Standing, type Status } from '../../ui/standing'
import { paths } from '../../util/paths'
import { inWords } from '../../util/reasons'

/** One piece of work, as the list shows it: a task, a ticket that has none yet, or a sandbox that no task names. */
export interface Card {
  readonly key: string
  readonly title: string
  readonly type: string
  readonly status: Status
  readonly taskId: string | null
  readonly sandboxId: string | null
  readonly createdAt: string
  /** Where it stands in the list: by the time when its work was asked for, so that tries stay together. */
  readonly place: string
  /** Which try this is; 0 before the first. */
  readonly attempt: number
  readonly error: string | null
  /** Where it can be looked at; `null` while there is nothing to see. */
  readonly href: string | null
  readonly can: { readonly fail: boolean; readonly stop: boolean; readonly retry: boolean }
  /** What a search looks through, in lower case. */
  readonly words: string
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
  const byPart = new Map<string, TaskOut>()
  for (const task of tasks) {
    cards.push(cardOfTask(task))
    if (task.sandbox_id !== null) named.add(task.sandbox_id)
    byPart.set(task.id.slice(0, TASK_PART), task)
  }
  for (const ticket of ticketsToApprove) {
    if (ticket.approval_status === 'pending_review') cards.push(cardOfTicket(ticket))
  }
  for (const sandbox of sandboxes) {
    if (!named.has(sandbox.sandbox_id) && isOfNoTask(sandbox, allTasks)) cards.push(cardOfSandbox(sandbox, byPart))
  }
  return cards.sort((one, other) => compare(other.place, one.place))
}

/** Those that a search finds. */
export function search(cards: readonly Card[], wanted: string): readonly Card[] {
  const words = wanted.trim().toLowerCase()
  return words === '' ? cards : cards.filter((card) => card.words.includes(words))
}

/** Those under a filter. */
export function filter(cards: readonly Card[], wanted: Filter): readonly Card[] {
  return wanted === 'all' ? cards : cards.filter((card) => filterOf(card.status.standing) === wanted)
}

/** How many there are under each filter. */
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
  for (const card of cards) found[filterOf(card.status.standing)] += 1
  return found
}

/** What was called off has not come to what was wanted either. Its card still says Cancelled. */
function filterOf(standing: Standing): Exclude<Filter, 'all'> {
  return standing === 'cancelled' ? 'failed' : standing
}

function cardOfTask(task: TaskOut): Card {
  const status = ofTask(task)
  const isOver = task.status === 'completed' || task.status === 'failed' || task.status === 'cancelled'
  return {
    key: `task:${task.id}`,
    title: task.title === '' ? `Task ${task.id}` : task.title,
    type: wordsOf(task.task_type),
    status,
    taskId: task.id,
    sandboxId: task.sandbox_id,
    createdAt: task.created_at,
    place: `${task.created_at} ${task.id} ~`,
    attempt: task.attempt,
    // A task that works again is not what its last try came to.
    error: status.standing === 'failed' || task.status === 'pending' ? sentenceOf(task.error_message) : null,
    href: hrefOfTask(task),
    can: { fail: !isOver, stop: !isOver, retry: task.status === 'failed' || task.status === 'cancelled' },
    words: searched(task.title, task.task_type, wordsOf(task.task_type), task.id, task.sandbox_id),
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
    place: `${ticket.created_at} ${ticket.id}`,
    attempt: 0,
    error: null,
    href: paths.progress(ticket.id),
    can: { fail: false, stop: false, retry: false },
    words: searched(ticket.title, 'ticket', ticket.id),
  }
}

function cardOfSandbox(sandbox: SandboxOut, byPart: ReadonlyMap<string, TaskOut>): Card {
  const status = ofSandbox(sandbox)
  const made = MADE_FOR_A_TASK.exec(sandbox.sandbox_id)
  const task = byPart.get(made?.[1] ?? '')
  const title = sandbox.name ?? task?.title ?? `Sandbox ${sandbox.sandbox_id}`
  const type = made === null ? 'Sandbox' : 'Former try'
  const isOver = status.standing === 'completed' || status.standing === 'failed' || status.standing === 'cancelled'
  return {
    key: `sandbox:${sandbox.sandbox_id}`,
    title,
    type,
    status,
    taskId: null,
    sandboxId: sandbox.sandbox_id,
    createdAt: sandbox.created_at,
    // Below its task, which ends with the last character that ASCII has to show.
    place: task === undefined ? sandbox.created_at : `${task.created_at} ${task.id} ${sandbox.created_at}`,
    attempt: made === null ? 0 : Number(made[2]),
    error: status.standing === 'failed' ? sentenceOf(sandbox.ended?.reason) : null,
    href: paths.sandbox(sandbox.sandbox_id),
    can: { fail: false, stop: !isOver, retry: false },
    words: searched(title, type, sandbox.sandbox_id),
  }
}

/**
 * The plane makes a sandbox for a task, and calls it after the task and the number of the try. One that is being made
 * belongs to a task whose new state is on its way; and before all tasks are read nobody can tell what they name.
 */
function isOfNoTask(sandbox: SandboxOut, allTasks: boolean): boolean {
  if (sandbox.status === 'pending' || sandbox.status === 'creating') return false
  return allTasks || MADE_FOR_A_TASK.exec(sandbox.sandbox_id) === null
}

const TASK_PART = 24
const MADE_FOR_A_TASK = /^(.{1,24})-(\d+)-[0-9a-f]{6}$/

const sentenceOf = (reason: string | null | undefined) => (reason == null ? null : inWords(reason))

/** "implement_feature" is "Implement feature" to a reader. */
function wordsOf(type: string): string {
  const words = type.replaceAll(/[_-]+/g, ' ').trim()
  return words.charAt(0).toUpperCase() + words.slice(1)
}

const searched = (...parts: (string | null)[]) =>
  parts
    .filter((part) => part !== null)
    // A search must not find what two fields say together.
    .join('\n')
    .toLowerCase()

const compare = (one: string, other: string) => (one < other ? -1 : one > other ? 1 : 0)
