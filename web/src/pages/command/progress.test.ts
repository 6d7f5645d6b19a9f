import { describe, expect, it } from 'vitest'
import { TASK_STATUSES, type TaskStatus } from '../../api/contract'
import { eventWith, shownWith, taskWith } from '../testing/samples'
import { progressOf, type ProgressData } from './progress'

const created = eventWith('ticket.created', { approval_status: 'approved' })
const claimed = eventWith('task.claimed', { sandbox_id: 'box-1', attempt: 1 }, 3)

function known(changes: Partial<ProgressData>): ProgressData {
  return {
    ticket: shownWith({}),
    ticketEvents: [created],
    task: taskWith({}),
    taskEvents: [],
    sandboxEvents: [],
    ...changes,
  }
}

const texts = (of: ProgressData) => progressOf(of).steps.map((step) => `${step.state}: ${step.text}`)
const eventsOf = (...types: string[]) => types.map((type, index) => eventWith(type, {}, index + 1))

describe('the stages of an attempt', () => {
  it('start with waiting for a free slot', () => {
    const waiting = known({})
    expect(texts(waiting)).toEqual([
      'done: Ticket created',
      'now: Waiting for a free slot',
      'ahead: Prepare',
      'ahead: Create sandbox',
      'ahead: Upload worker',
      'ahead: Start worker',
    ])
    expect(progressOf(waiting).waiting).toMatch(/slot is free/)
  })

  it('follow the events of the sandbox', () => {
    const creating = known({
      task: taskWith({ status: 'claiming', sandbox_id: 'box-1' }),
      taskEvents: [claimed],
      sandboxEvents: eventsOf('sandbox.preparing', 'sandbox.creating'),
    })
    expect(texts(creating)).toEqual([
      'done: Ticket created',
      'done: Got a free slot',
      'done: Prepared',
      'now: Creating sandbox',
      'ahead: Upload worker',
      'ahead: Start worker',
    ])
    expect(progressOf(creating).sandboxId).toBeNull()
  })

  it('show the error of a stage only while it is retried', () => {
    const retrying = eventWith('sandbox.retrying', { stage: 'creating', error: 'The provider is down.' }, 9)
    const task = taskWith({ status: 'claiming', sandbox_id: 'box-1' })
    const stuck = known({ task, taskEvents: [claimed], sandboxEvents: [...eventsOf('sandbox.creating'), retrying] })
    expect(progressOf(stuck).steps.find((step) => step.state === 'now')?.detail).toMatch(/The provider is down\./)
    expect(progressOf(stuck).waiting).toMatch(/provider/i)
    const free = known({ ...stuck, sandboxEvents: [...stuck.sandboxEvents, ...eventsOf('sandbox.uploading')] })
    expect(progressOf(free).steps.map((step) => step.detail)).toEqual([null, null, null, null, null, null])
  })
})

describe('the sandbox to open', () => {
  const opens: Record<TaskStatus, boolean> = {
    pending: false,
    claiming: false,
    assigned: false,
    running: true,
    completing: true,
    validating: true,
    needs_revision: false,
    completed: true,
    failed: false,
    cancelled: false,
  }
  it.each(TASK_STATUSES)('depends on the task status: %s', (status) => {
    const task = taskWith({ status, sandbox_id: 'box-1' })
    expect(progressOf(known({ task })).sandboxId).toBe(opens[status] ? 'box-1' : null)
  })

  it.each(['sandbox.spawned', 'sandbox.running'])('is known after %s', (type) => {
    const task = taskWith({ status: 'assigned', sandbox_id: 'box-1' })
    expect(progressOf(known({ task, taskEvents: [claimed], sandboxEvents: eventsOf(type) })).sandboxId).toBe('box-1')
  })

  it('is never that of a finished attempt while the next one waits', () => {
    const task = taskWith({ status: 'pending', sandbox_id: 'box-1', attempt: 1, error_message: 'The worker crashed.' })
    const retrying = eventWith('task.retrying', { attempt: 1, error: 'The worker crashed.' }, 5)
    const between = known({ task, taskEvents: [claimed, retrying], sandboxEvents: eventsOf('sandbox.spawned') })
    expect(progressOf(between).sandboxId).toBeNull()
    expect(texts(between).slice(0, 3)).toEqual([
      'done: Ticket created',
      'failed: Attempt 1 failed',
      'now: Waiting for a free slot',
    ])
    expect(progressOf(between).steps[1]?.detail).toBe('The worker crashed.')
  })
})

describe('a waiting ticket', () => {
  it('names its dependencies', () => {
    expect(progressOf(known({ task: taskWith({ blocked: true }) })).waiting).toMatch(/depends on/)
  })

  it('needs approval if that is required', () => {
    const ticket = shownWith({ approval_status: 'pending_review' })
    const submitted = eventWith('ticket.created', { approval_status: 'pending_review' })
    const of = known({ ticket, ticketEvents: [submitted], task: null })
    expect(texts(of)).toEqual(['done: Ticket created', 'now: Waiting for approval'])
    expect(progressOf(of)).toMatchObject({ needsApproval: true, end: null })
    expect(progressOf(of).waiting).toMatch(/approval/)
  })

  it('shows a given approval', () => {
    const submitted = eventWith('ticket.created', { approval_status: 'pending_review' })
    const of = known({ ticketEvents: [submitted, eventWith('ticket.approved', {}, 2)] })
    expect(texts(of)[1]).toBe('done: Approved')
    expect(progressOf(of).needsApproval).toBe(false)
  })
})

describe('a ticket that ended without a sandbox', () => {
  it('shows the reason of a rejection', () => {
    const ticket = shownWith({ approval_status: 'rejected', rejection_reason: 'Too expensive.', reviewed_by: 'anna' })
    const of = progressOf(known({ ticket, task: null }))
    expect(of).toMatchObject({ end: 'not_approved', waiting: null, needsApproval: false })
    expect(of.steps.at(-1)).toMatchObject({ state: 'failed', text: 'Rejected', detail: 'Too expensive.' })
  })

  it('shows the reason of a failure and the completed stages', () => {
    const of = known({
      task: taskWith({ status: 'failed', sandbox_id: 'box-1', error_message: 'Image not found.' }),
      taskEvents: [claimed, eventWith('task.failed', {}, 4)],
      sandboxEvents: eventsOf('sandbox.preparing', 'sandbox.creating'),
    })
    expect(texts(of)).toEqual(['done: Ticket created', 'done: Got a free slot', 'done: Prepared', 'failed: Failed'])
    expect(progressOf(of)).toMatchObject({ end: 'failed', waiting: null })
    expect(progressOf(of).steps.at(-1)?.detail).toBe('Image not found.')
  })

  it('shows that a user cancelled it', () => {
    const task = taskWith({ status: 'cancelled', error_message: 'cancelled_by_user' })
    expect(progressOf(known({ task })).steps.at(-1)).toMatchObject({
      text: 'Cancelled',
      detail: 'Cancelled by a user.',
    })
  })
})
