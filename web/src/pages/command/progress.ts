import type { ApprovalStatus, TaskOut, TicketDetails } from '../../api/contract'
import type { EventType, LogEvent } from '../../timeline/event'
import { firstText, flag, number, text } from '../../timeline/read'
import { describeReason } from '../../util/reasons'

/** Everything the progress of a ticket is derived from. Read again whenever any of it changes. */
export interface ProgressData {
  readonly ticket: TicketDetails
  readonly ticketEvents: readonly LogEvent[]
  /** The ticket's newest task; `null` while it has none. */
  readonly task: TaskOut | null
  readonly taskEvents: readonly LogEvent[]
  /** Lifecycle events of the task's current sandbox. */
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
  /** What the ticket waits for, as a sentence; `null` if it does not wait. */
  readonly waiting: string | null
  /** The sandbox to open: that of the current attempt of this ticket's task. */
  readonly sandboxId: string | null
  /** How the ticket ended without a sandbox. */
  readonly end: 'failed' | 'cancelled' | 'not_approved' | null
  readonly needsApproval: boolean
}

export function progressOf(known: ProgressData): Progress {
  const { ticket, task } = known
  const approval = approvalSteps(known)
  const created: Step = { key: 'created', text: 'Ticket created', detail: null, at: ticket.created_at, state: 'done' }
  const end = endOf(known)
  const sandboxId = end === null ? sandboxToOpen(known) : null
  return {
    steps: [
      created,
      ...approval,
      ...earlierAttempts(known),
      ...stagesOfAttempt(known, end !== null),
      ...lastStep(known),
    ],
    waiting: end === null && sandboxId === null ? waitingFor(known) : null,
    sandboxId,
    end,
    needsApproval: task === null && ticket.approval_status === 'pending_review',
  }
}

/**
 * **Invariant:** returns only the sandbox of this ticket's task, and only for the attempt in progress: a task that waits
 * for its next attempt still refers to the sandbox of the last one.
 */
function sandboxToOpen({ task, sandboxEvents }: ProgressData): string | null {
  if (task?.sandbox_id == null) return null
  switch (task.status) {
    case 'running':
    case 'completing':
    case 'validating':
    case 'completed':
      return task.sandbox_id
    case 'claiming':
    case 'assigned':
      return currentStage(sandboxEvents) === STAGES.length ? task.sandbox_id : null
    default:
      return null
  }
}

function endOf({ ticket, task }: ProgressData): Progress['end'] {
  if (ticket.approval_status === 'rejected' || ticket.approval_status === 'timed_out') return 'not_approved'
  if (task?.status === 'failed') return 'failed'
  return task?.status === 'cancelled' ? 'cancelled' : null
}

function waitingFor({ ticket, task, sandboxEvents }: ProgressData): string {
  if (ticket.approval_status === 'pending_review') return 'Work starts after approval.'
  if (task === null) return 'Creating the first task.'
  if (task.status === 'pending' || task.status === 'needs_revision') {
    if (task.blocked) return 'Waiting for tasks that it depends on.'
    if (task.feedback !== null) return 'Sent back for revision. Waiting for the next attempt.'
    if (task.not_before !== null && task.error_message !== null) {
      return 'The last attempt failed. Retrying soon…'
    }
    return 'Starts automatically when a slot is free.'
  }
  const last = sandboxEvents.at(-1)
  if (last?.type === 'sandbox.retrying') return 'The sandbox provider reported a problem. Retrying…'
  return 'The sandbox is being created.'
}

const approvals: Record<ApprovalStatus, { text: string; state: Step['state'] }> = {
  pending_review: { text: 'Waiting for approval', state: 'now' },
  approved: { text: 'Approved', state: 'done' },
  rejected: { text: 'Rejected', state: 'failed' },
  timed_out: { text: 'Not approved in time', state: 'failed' },
}

/** Only if approval was required: other tickets start as approved. */
function approvalSteps({ ticket, ticketEvents }: ProgressData): Step[] {
  const created = ticketEvents.find((event) => event.type === 'ticket.created')
  const required = created === undefined ? null : text(created.data, 'approval_status')
  const wasRequired = ticket.approval_status !== 'approved' || required === 'pending_review'
  if (!wasRequired) return []
  const decided = ticketEvents.find(
    ({ type }) => type === 'ticket.approved' || type === 'ticket.rejected' || type === 'ticket.timed_out',
  )
  const by = ticket.reviewed_by === null ? null : `By ${ticket.reviewed_by}.`
  const detail = ticket.approval_status === 'rejected' ? (ticket.rejection_reason ?? by) : by
  return [{ key: 'approval', ...approvals[ticket.approval_status], detail, at: decided?.at ?? null }]
}

/** Failed attempts and revisions before the current attempt. */
function earlierAttempts({ taskEvents }: ProgressData): Step[] {
  const steps: Step[] = []
  for (const event of taskEvents) {
    const key = `task:${event.seq}`
    if (event.type === 'task.retrying' && flag(event.data, 'manual')) {
      steps.push({ key, text: 'Retried by a user', detail: null, at: event.at, state: 'done' })
    } else if (event.type === 'task.retrying') {
      const attempt = number(event.data, 'attempt')
      const label = attempt === null ? 'Attempt failed' : `Attempt ${attempt} failed`
      steps.push({ key, text: label, detail: textOf(firstText(event.data, 'error')), at: event.at, state: 'failed' })
    } else if (event.type === 'task.needs_revision') {
      steps.push({
        key,
        text: 'Sent back for revision',
        detail: textOf(firstText(event.data, 'feedback')),
        at: event.at,
        state: 'done',
      })
    }
  }
  return steps
}

/** The stages of an attempt, with their labels before, during and after. */
const STAGES = [
  { type: 'task.claimed', ahead: 'Wait for a free slot', now: 'Waiting for a free slot', done: 'Got a free slot' },
  { type: 'sandbox.preparing', ahead: 'Prepare', now: 'Preparing', done: 'Prepared' },
  { type: 'sandbox.creating', ahead: 'Create sandbox', now: 'Creating sandbox', done: 'Sandbox created' },
  { type: 'sandbox.uploading', ahead: 'Upload worker', now: 'Uploading worker', done: 'Worker uploaded' },
  { type: 'sandbox.starting', ahead: 'Start worker', now: 'Starting worker', done: 'Worker started' },
] as const

/** The stage in progress after each event; `STAGES.length` if all stages are done. */
const STAGE_AFTER: ReadonlyMap<EventType, number> = new Map<EventType, number>([
  ['task.claimed', 1],
  ['sandbox.preparing', 1],
  ['sandbox.creating', 2],
  ['sandbox.uploading', 3],
  ['sandbox.starting', 4],
  ['sandbox.spawned', STAGES.length],
  // A running sandbox has started, even if the `spawned` event is missing.
  ['sandbox.running', STAGES.length],
])

function stagesOfAttempt({ task, taskEvents, sandboxEvents }: ProgressData, hasEnded: boolean): Step[] {
  if (task === null) return []
  // A task that waits for its next attempt has not reached any stage of it.
  const isWaiting = task.status === 'pending' || task.status === 'needs_revision'
  const claimed = taskEvents.findLast((event) => event.type === 'task.claimed')
  const events = isWaiting || claimed === undefined ? [] : [claimed, ...sandboxEvents]
  const current = currentStage(events)
  const steps = STAGES.map((stage, index): Step => {
    const state = index < current ? 'done' : index === current ? 'now' : 'ahead'
    const at = events.find((event) => event.type === stage.type)?.at ?? null
    return { key: stage.type, text: stage[state], detail: state === 'now' ? retryErrorOf(events) : null, at, state }
  })
  return hasEnded ? steps.filter((step) => step.state === 'done') : steps
}

const currentStage = (events: readonly LogEvent[]) =>
  Math.max(0, ...events.map(({ type }) => STAGE_AFTER.get(type) ?? 0))

/** The error of the stage that is being retried. */
function retryErrorOf(events: readonly LogEvent[]): string | null {
  const last = events.at(-1)
  if (last?.type !== 'sandbox.retrying') return null
  return `${textOf(firstText(last.data, 'error')) ?? 'The stage failed.'} Retrying…`
}

function lastStep({ task, taskEvents }: ProgressData): Step[] {
  if (task?.status !== 'failed' && task?.status !== 'cancelled') return []
  const ended = taskEvents.findLast((event) => event.type === `task.${task.status}`)
  const text = task.status === 'failed' ? 'Failed' : 'Cancelled'
  return [{ key: 'end', text, detail: textOf(task.error_message), at: ended?.at ?? task.completed_at, state: 'failed' }]
}

const textOf = (value: string | null) => (value === null || value === '' ? null : describeReason(value))
