import type { ApprovalStatus, JsonValue, TaskOut, TicketShown } from '../../api/contract'
import type { LogEvent } from '../../timeline/event'
import { inWords } from '../../util/reasons'

/** What is known of a ticket on its way to its sandbox: all of it, read anew whenever something of it changes. */
export interface Known {
  readonly ticket: TicketShown
  readonly ticketEvents: readonly LogEvent[]
  /** The ticket's newest task; `null` while it has none. */
  readonly task: TaskOut | null
  readonly taskEvents: readonly LogEvent[]
  /** What the plane told of the task's current sandbox. */
  readonly sandboxEvents: readonly LogEvent[]
}

export interface Step {
  readonly key: string
  readonly text: string
  readonly detail: string | null
  readonly at: string | null
  readonly state: 'done' | 'now' | 'ahead' | 'failed'
}

export interface Progress {
  readonly steps: readonly Step[]
  /** What it waits for, in a sentence; `null` when there is nothing to wait for. */
  readonly waiting: string | null
  /** The sandbox that this ticket's own task works in: time to look at it. */
  readonly sandboxId: string | null
  /** How it ended without one. */
  readonly end: 'failed' | 'cancelled' | 'not_approved' | null
  readonly needsApproval: boolean
}

export function progressOf(known: Known): Progress {
  const { ticket, task } = known
  const approval = approvalSteps(known)
  const created: Step = { key: 'created', text: 'Ticket created', detail: null, at: ticket.created_at, state: 'done' }
  const end = endOf(known)
  const sandboxId = end === null ? sandboxToOpen(known) : null
  return {
    steps: [created, ...approval, ...earlierTries(known), ...stagesOfTry(known, end !== null), ...lastStep(known)],
    waiting: end === null && sandboxId === null ? waitingFor(known) : null,
    sandboxId,
    end,
    needsApproval: task === null && ticket.approval_status === 'pending_review',
  }
}

/**
 * **Invariant:** only a sandbox that this ticket's task names, and only for the try that is at work: a task that waits
 * for its next try still names the sandbox of the last.
 */
function sandboxToOpen({ task, sandboxEvents }: Known): string | null {
  if (task?.sandbox_id == null) return null
  switch (task.status) {
    case 'running':
    case 'validating':
    case 'completed':
      return task.sandbox_id
    case 'claiming':
    case 'assigned':
      return stageAtWork(sandboxEvents) === STAGES.length ? task.sandbox_id : null
    default:
      return null
  }
}

function endOf({ ticket, task }: Known): Progress['end'] {
  if (ticket.approval_status === 'rejected' || ticket.approval_status === 'timed_out') return 'not_approved'
  if (task?.status === 'failed') return 'failed'
  return task?.status === 'cancelled' ? 'cancelled' : null
}

function waitingFor({ ticket, task, sandboxEvents }: Known): string {
  if (ticket.approval_status === 'pending_review') return 'It waits until somebody approves it.'
  if (task === null) return 'Its first task is being written down.'
  if (task.status === 'pending' || task.status === 'needs_revision') {
    if (task.blocked) return 'It waits for other tasks that it depends on.'
    if (task.feedback !== null) return 'It was sent back, and waits for its next try.'
    if (task.not_before !== null && task.error_message !== null) {
      return 'The last try failed. It is tried again in a moment.'
    }
    return 'It waits for a free slot. It begins by itself as soon as there is one.'
  }
  const last = sandboxEvents.at(-1)
  if (last?.type === 'sandbox.retrying') return 'The provider of sandboxes has trouble. It is tried again by itself.'
  return 'Its sandbox is being made.'
}

const approvals: Record<ApprovalStatus, { text: string; state: Step['state'] }> = {
  pending_review: { text: 'Waiting for approval', state: 'now' },
  approved: { text: 'Approved', state: 'done' },
  rejected: { text: 'Rejected', state: 'failed' },
  timed_out: { text: 'Nobody approved it in time', state: 'failed' },
}

/** Only where somebody had to approve: a ticket that needs nobody's word begins as approved. */
function approvalSteps({ ticket, ticketEvents }: Known): Step[] {
  const created = ticketEvents.find((event) => event.type === 'ticket.created')
  const wasAsked = ticket.approval_status !== 'approved' || created?.data['approval_status'] === 'pending_review'
  if (!wasAsked) return []
  const decided = ticketEvents.find(({ type }) =>
    ['ticket.approved', 'ticket.rejected', 'ticket.timed_out'].includes(type),
  )
  const by = ticket.reviewed_by === null ? null : `By ${ticket.reviewed_by}.`
  const detail = ticket.approval_status === 'rejected' ? (ticket.rejection_reason ?? by) : by
  return [{ key: 'approval', ...approvals[ticket.approval_status], detail, at: decided?.at ?? null }]
}

/** Tries that came to nothing, and why: the task goes on after them. */
function earlierTries({ taskEvents }: Known): Step[] {
  const steps: Step[] = []
  for (const event of taskEvents) {
    const key = `task:${event.seq}`
    if (event.type === 'task.retrying' && event.data['asked_for'] === true) {
      steps.push({ key, text: 'Somebody asked for it again', detail: null, at: event.at, state: 'done' })
    } else if (event.type === 'task.retrying') {
      const attempt = event.data['attempt']
      const text = typeof attempt === 'number' ? `Try ${attempt} failed` : 'A try failed'
      steps.push({ key, text, detail: textOf(event.data['error']), at: event.at, state: 'failed' })
    } else if (event.type === 'task.needs_revision') {
      steps.push({ key, text: 'Sent back', detail: textOf(event.data['feedback']), at: event.at, state: 'done' })
    }
  }
  return steps
}

/** The way of a try: what each stage is called before, while and after it happens. */
const STAGES = [
  { type: 'task.claimed', ahead: 'Wait for a free slot', now: 'Waiting for a free slot', done: 'Got a free slot' },
  { type: 'sandbox.preparing', ahead: 'Prepare', now: 'Preparing', done: 'Prepared' },
  { type: 'sandbox.creating', ahead: 'Create the sandbox', now: 'Creating the sandbox', done: 'Created the sandbox' },
  { type: 'sandbox.uploading', ahead: 'Upload the worker', now: 'Uploading the worker', done: 'Uploaded the worker' },
  { type: 'sandbox.starting', ahead: 'Start the worker', now: 'Starting the worker', done: 'Started the worker' },
] as const

/** The stage that is at work once this was told; one more than there are when all of them are done. */
const AT_WORK = new Map<string, number>([
  ['task.claimed', 1],
  ['sandbox.preparing', 1],
  ['sandbox.creating', 2],
  ['sandbox.uploading', 3],
  ['sandbox.starting', 4],
  ['sandbox.spawned', STAGES.length],
  // Whoever is heard has come up, whether or not somebody came to say so.
  ['sandbox.running', STAGES.length],
])

function stagesOfTry({ task, taskEvents, sandboxEvents }: Known, isOver: boolean): Step[] {
  if (task === null) return []
  // A task that waits for its next try has not come anywhere in it.
  const isWaiting = task.status === 'pending' || task.status === 'needs_revision'
  const claimed = taskEvents.findLast((event) => event.type === 'task.claimed')
  const told = isWaiting || claimed === undefined ? [] : [claimed, ...sandboxEvents]
  const atWork = stageAtWork(told)
  const steps = STAGES.map((stage, index): Step => {
    const state = index < atWork ? 'done' : index === atWork ? 'now' : 'ahead'
    const at = told.find((event) => event.type === stage.type)?.at ?? null
    return { key: stage.type, text: stage[state], detail: state === 'now' ? troubleOf(told) : null, at, state }
  })
  return isOver ? steps.filter((step) => step.state === 'done') : steps
}

const stageAtWork = (told: readonly LogEvent[]) => Math.max(0, ...told.map(({ type }) => AT_WORK.get(type) ?? 0))

/** What went wrong at the stage that is being tried again. */
function troubleOf(told: readonly LogEvent[]): string | null {
  const last = told.at(-1)
  if (last?.type !== 'sandbox.retrying') return null
  return `${textOf(last.data['error']) ?? 'It did not work.'} It is tried again by itself.`
}

function lastStep({ task, taskEvents }: Known): Step[] {
  if (task?.status !== 'failed' && task?.status !== 'cancelled') return []
  const ended = taskEvents.findLast((event) => event.type === `task.${task.status}`)
  const text = task.status === 'failed' ? 'It failed' : 'Cancelled'
  return [{ key: 'end', text, detail: textOf(task.error_message), at: ended?.at ?? task.completed_at, state: 'failed' }]
}

const textOf = (value: JsonValue | undefined) => (typeof value === 'string' && value !== '' ? inWords(value) : null)
