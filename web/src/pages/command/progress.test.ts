import { describe, expect, it } from 'vitest'
import { TASK_STATUSES, type TaskStatus } from '../../api/contract'
import { eventWith, shownWith, taskWith } from '../testing/samples'
import { progressOf, type Known } from './progress'

const created = eventWith('ticket.created', { approval_status: 'approved' })
const claimed = eventWith('task.claimed', { sandbox_id: 'box-1', attempt: 1 }, 3)

function known(changes: Partial<Known>): Known {
  return { ticket: shownWith({}), ticketEvents: [created], task: taskWith({}), taskEvents: [], sandboxEvents: [], ...changes }
}

const texts = (of: Known) => progressOf(of).steps.map((step) => `${step.state}: ${step.text}`)
const told = (...types: string[]) => types.map((type, index) => eventWith(type, {}, index + 1))

describe('the way to a sandbox', () => {
  it('begins with a wait for a free slot', () => {
    const waiting = known({})
    expect(texts(waiting)).toEqual([
      'done: Ticket created',
      'now: Waiting for a free slot',
      'ahead: Prepare',
      'ahead: Create the sandbox',
      'ahead: Upload the worker',
      'ahead: Start the worker',
    ])
    expect(progressOf(waiting).waiting).toMatch(/free slot/)
  })

  it('goes on from stage to stage as the sandbox tells of them', () => {
    const making = known({
      task: taskWith({ status: 'claiming', sandbox_id: 'box-1' }),
      taskEvents: [claimed],
      sandboxEvents: told('sandbox.preparing', 'sandbox.creating'),
    })
    expect(texts(making)).toEqual([
      'done: Ticket created',
      'done: Got a free slot',
      'done: Prepared',
      'now: Creating the sandbox',
      'ahead: Upload the worker',
      'ahead: Start the worker',
    ])
    expect(progressOf(making).sandboxId).toBeNull()
  })

  it('says what went wrong at a stage while that is tried again, and not any more once it is over', () => {
    const retrying = eventWith('sandbox.retrying', { stage: 'creating', error: 'The provider is down.' }, 9)
    const task = taskWith({ status: 'claiming', sandbox_id: 'box-1' })
    const stuck = known({ task, taskEvents: [claimed], sandboxEvents: [...told('sandbox.creating'), retrying] })
    expect(progressOf(stuck).steps.find((step) => step.state === 'now')?.detail).toMatch(/The provider is down\./)
    expect(progressOf(stuck).waiting).toMatch(/trouble/)
    const free = known({ ...stuck, sandboxEvents: [...stuck.sandboxEvents, ...told('sandbox.uploading')] })
    expect(progressOf(free).steps.map((step) => step.detail)).toEqual([null, null, null, null, null, null])
  })
})

describe('when the reader is taken to the sandbox', () => {
  const opens: Record<TaskStatus, boolean> = {
    pending: false,
    claiming: false,
    assigned: false,
    running: true,
    validating: true,
    needs_revision: false,
    completed: true,
    failed: false,
    cancelled: false,
  }
  it.each(TASK_STATUSES)('a task that is %s', (status) => {
    const task = taskWith({ status, sandbox_id: 'box-1' })
    expect(progressOf(known({ task })).sandboxId).toBe(opens[status] ? 'box-1' : null)
  })

  it.each(['sandbox.spawned', 'sandbox.running'])('as soon as there was %s', (type) => {
    const task = taskWith({ status: 'assigned', sandbox_id: 'box-1' })
    expect(progressOf(known({ task, taskEvents: [claimed], sandboxEvents: told(type) })).sandboxId).toBe('box-1')
  })

  it('never to the sandbox of a try that is over while the next one waits', () => {
    const task = taskWith({ status: 'pending', sandbox_id: 'box-1', attempt: 1, error_message: 'The worker died.' })
    const retrying = eventWith('task.retrying', { attempt: 1, error: 'The worker died.' }, 5)
    const between = known({ task, taskEvents: [claimed, retrying], sandboxEvents: told('sandbox.spawned') })
    expect(progressOf(between).sandboxId).toBeNull()
    expect(texts(between).slice(0, 3)).toEqual([
      'done: Ticket created',
      'failed: Try 1 failed',
      'now: Waiting for a free slot',
    ])
    expect(progressOf(between).steps[1]?.detail).toBe('The worker died.')
  })
})

describe('what it waits for', () => {
  it('other tasks', () => {
    expect(progressOf(known({ task: taskWith({ blocked: true }) })).waiting).toMatch(/depends on/)
  })

  it('a person, where one has to approve', () => {
    const ticket = shownWith({ approval_status: 'pending_review' })
    const asked = eventWith('ticket.created', { approval_status: 'pending_review' })
    const of = known({ ticket, ticketEvents: [asked], task: null })
    expect(texts(of)).toEqual(['done: Ticket created', 'now: Waiting for approval'])
    expect(progressOf(of)).toMatchObject({ needsApproval: true, end: null })
    expect(progressOf(of).waiting).toMatch(/approves/)
  })

  it('nobody any more once somebody has approved, which stays to be seen', () => {
    const asked = eventWith('ticket.created', { approval_status: 'pending_review' })
    const of = known({ ticketEvents: [asked, eventWith('ticket.approved', {}, 2)] })
    expect(texts(of)[1]).toBe('done: Approved')
    expect(progressOf(of).needsApproval).toBe(false)
  })
})

describe('how it ends without a sandbox', () => {
  it('rejected, with the reason', () => {
    const ticket = shownWith({ approval_status: 'rejected', rejection_reason: 'Too dear.', reviewed_by: 'anna' })
    const of = progressOf(known({ ticket, task: null }))
    expect(of).toMatchObject({ end: 'not_approved', waiting: null, needsApproval: false })
    expect(of.steps.at(-1)).toMatchObject({ state: 'failed', text: 'Rejected', detail: 'Too dear.' })
  })

  it('failed, with the reason and only the stages that were reached', () => {
    const of = known({
      task: taskWith({ status: 'failed', sandbox_id: 'box-1', error_message: 'There is no such image.' }),
      taskEvents: [claimed, eventWith('task.failed', {}, 4)],
      sandboxEvents: told('sandbox.preparing', 'sandbox.creating'),
    })
    expect(texts(of)).toEqual([
      'done: Ticket created',
      'done: Got a free slot',
      'done: Prepared',
      'failed: It failed',
    ])
    expect(progressOf(of)).toMatchObject({ end: 'failed', waiting: null })
    expect(progressOf(of).steps.at(-1)?.detail).toBe('There is no such image.')
  })

  it('cancelled by somebody, in words', () => {
    const task = taskWith({ status: 'cancelled', error_message: 'cancelled_by_user' })
    expect(progressOf(known({ task })).steps.at(-1)).toMatchObject({ text: 'Cancelled', detail: 'Somebody cancelled it.' })
  })
})
