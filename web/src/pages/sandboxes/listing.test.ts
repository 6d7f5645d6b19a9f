import { describe, expect, it } from 'vitest'
import { TASK_STATUSES, type SandboxStatus, type TaskStatus } from '../../api/contract'
import { sandboxWith, taskWith, ticketWith } from '../testing/samples'
import { counts, filter, listing, search, type Filter, type Lists } from './listing'

const nothing: Lists = { tasks: [], allTasks: true, sandboxes: [], ticketsToApprove: [] }

describe('where a card is found', () => {
  const filters: Record<TaskStatus, Filter> = {
    pending: 'pending',
    claiming: 'running',
    assigned: 'running',
    running: 'running',
    validating: 'awaiting',
    needs_revision: 'validating',
    completed: 'completed',
    failed: 'failed',
    cancelled: 'failed',
  }
  it.each(TASK_STATUSES)('a task that is %s is under one filter, and counted there', (status) => {
    const cards = listing({ ...nothing, tasks: [taskWith({ status })] })
    expect(filter(cards, filters[status])).toHaveLength(1)
    const numbers = counts(cards)
    expect(numbers.all).toBe(1)
    expect(Object.entries(numbers).filter(([, number]) => number === 1)).toHaveLength(2)
    expect(numbers[filters[status]]).toBe(1)
  })

  it('a task that was sent back is validating until its next try begins', () => {
    const sentBack = taskWith({ status: 'pending', feedback: 'Not yet.' })
    expect(listing({ ...nothing, tasks: [sentBack] })[0]?.status.standing).toBe('validating')
    const again = taskWith({ status: 'running', feedback: 'Not yet.' })
    expect(listing({ ...nothing, tasks: [again] })[0]?.status.standing).toBe('running')
  })

  it('a ticket that nobody has approved waits for a person, and its card leads to its progress', () => {
    const ticketsToApprove = [ticketWith({ id: 'ticket-9', approval_status: 'pending_review' })]
    const [card] = listing({ ...nothing, ticketsToApprove })
    expect(card?.status).toEqual({ standing: 'awaiting', word: 'Awaiting approval' })
    expect(card?.href).toBe('/command?ticket=ticket-9')
  })

  it('a status of a newer plane does not break the list', () => {
    // What a newer plane says is not among the types of this one.
    const strange = taskWith({ status: 'hibernating' as TaskStatus })
    expect(listing({ ...nothing, tasks: [strange] })[0]?.status.word).toBe('Unknown')
  })
})

describe('which cards there are', () => {
  it('one for each task, newest first, and none for the sandbox of one', () => {
    const tasks = [
      taskWith({ id: 'a', created_at: '2026-11-17T10:00:00.000000Z', sandbox_id: 'box-a' }),
      taskWith({ id: 'b', created_at: '2026-11-17T11:00:00.000000Z' }),
    ]
    const cards = listing({ ...nothing, tasks, sandboxes: [sandboxWith({ sandbox_id: 'box-a' })] })
    expect(cards.map((card) => card.taskId)).toEqual(['b', 'a'])
    expect(cards.map((card) => card.href)).toEqual(['/command?ticket=ticket-1', '/sandbox/box-a'])
  })

  it('one for a sandbox that somebody registered, even before all tasks are read', () => {
    const sandboxes = [sandboxWith({ sandbox_id: 'by-hand', name: 'Played by hand', status: 'registered' })]
    expect(listing({ ...nothing, allTasks: false, sandboxes })).toMatchObject([
      { title: 'Played by hand', type: 'Sandbox', can: { fail: false, stop: true, retry: false } },
    ])
  })

  const task = taskWith({ id: 'task-0123456789abcdef0123456', sandbox_id: 'task-0123456789abcdef012-2-aaaaaa', attempt: 2 })
  const former = (status: SandboxStatus) =>
    sandboxWith({ sandbox_id: 'task-0123456789abcdef012-1-bbbbbb', status, created_at: '2026-11-17T12:00:00.000000Z' })

  it('a former try stands below its task, under its name', () => {
    const cards = listing({ ...nothing, tasks: [task], sandboxes: [former('terminated')] })
    expect(cards.map(({ type, attempt, title }) => [type, attempt, title])).toEqual([
      ['Implement feature', 2, 'Count words'],
      ['Former try', 1, 'Count words'],
    ])
  })

  it('none for a sandbox of a task that may not have been read yet', () => {
    expect(listing({ ...nothing, allTasks: false, sandboxes: [former('terminated')] })).toEqual([])
    expect(listing({ ...nothing, tasks: [task], sandboxes: [former('creating')] })).toHaveLength(1)
  })
})

describe('what a card says and offers', () => {
  it('why it failed, in words, and that it can be tried again', () => {
    const failed = taskWith({ status: 'failed', error_message: 'marked_failed_by_user' })
    expect(listing({ ...nothing, tasks: [failed] })).toMatchObject([
      { error: 'Somebody marked it as failed.', can: { fail: false, stop: false, retry: true } },
    ])
  })

  it('no error of a former try while the next one works', () => {
    const running = taskWith({ status: 'running', error_message: 'The worker died.' })
    expect(listing({ ...nothing, tasks: [running] })).toMatchObject([
      { error: null, can: { fail: true, stop: true, retry: false } },
    ])
  })

  it('nowhere to go while a task without a ticket has no sandbox', () => {
    expect(listing({ ...nothing, tasks: [taskWith({ ticket_id: null })] })[0]?.href).toBeNull()
  })
})

describe('the search', () => {
  const cards = listing({
    ...nothing,
    tasks: [
      taskWith({ id: 'task-aaa', title: 'Count Words', sandbox_id: 'box-xyz' }),
      taskWith({ id: 'task-bbb', title: 'Draw a map', task_type: 'analyze_requirements' }),
    ],
  })
  it.each([
    ['count wor', ['task-aaa']],
    ['  WORDS ', ['task-aaa']],
    ['analyze_req', ['task-bbb']],
    ['analyze req', ['task-bbb']],
    ['task-b', ['task-bbb']],
    ['XYZ', ['task-aaa']],
    ['task-', ['task-aaa', 'task-bbb']],
    ['words task-aaa', []],
    ['', ['task-aaa', 'task-bbb']],
  ])('%j finds %j', (words, found) => {
    expect(
      search(cards, words)
        .map((card) => card.taskId)
        .sort(),
    ).toEqual(found)
  })
})
