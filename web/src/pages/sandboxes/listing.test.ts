import { describe, expect, it } from 'vitest'
import { TASK_STATUSES, type SandboxStatus, type TaskStatus } from '../../api/contract'
import { sandboxWith, taskWith, ticketWith } from '../testing/samples'
import { counts, filter, listing, search, type Filter, type Lists } from './listing'

const emptyLists: Lists = { tasks: [], allTasks: true, sandboxes: [], ticketsToApprove: [] }

describe('filters', () => {
  const filters: Record<TaskStatus, Filter> = {
    pending: 'pending',
    claiming: 'running',
    assigned: 'running',
    running: 'running',
    completing: 'running',
    validating: 'awaiting',
    needs_revision: 'validating',
    completed: 'completed',
    failed: 'failed',
    cancelled: 'failed',
  }
  it.each(TASK_STATUSES)('count a task that is %s under exactly one filter', (status) => {
    const cards = listing({ ...emptyLists, tasks: [taskWith({ status })] })
    expect(filter(cards, filters[status])).toHaveLength(1)
    const numbers = counts(cards)
    expect(numbers.all).toBe(1)
    expect(Object.entries(numbers).filter(([, number]) => number === 1)).toHaveLength(2)
    expect(numbers[filters[status]]).toBe(1)
  })

  it('treat a task as validating from its revision to its next attempt', () => {
    const sentBack = taskWith({ status: 'pending', feedback: 'Not yet.' })
    expect(listing({ ...emptyLists, tasks: [sentBack] })[0]?.status.group).toBe('validating')
    const again = taskWith({ status: 'running', feedback: 'Not yet.' })
    expect(listing({ ...emptyLists, tasks: [again] })[0]?.status.group).toBe('running')
  })

  it('treat an unapproved ticket as awaiting and link to its progress', () => {
    const ticketsToApprove = [ticketWith({ id: 'ticket-9', approval_status: 'pending_review' })]
    const [card] = listing({ ...emptyLists, ticketsToApprove })
    expect(card?.status).toEqual({ group: 'awaiting', label: 'Awaiting approval' })
    expect(card?.href).toBe('/command?ticket=ticket-9')
  })

  it('accept an unknown status', () => {
    // A newer control plane may send a status that the types here do not include.
    const unknown = taskWith({ status: 'hibernating' as TaskStatus })
    expect(listing({ ...emptyLists, tasks: [unknown] })[0]?.status.label).toBe('Unknown')
  })
})

describe('the list', () => {
  it('has one card per task, newest first, and none for its sandbox', () => {
    const tasks = [
      taskWith({ id: 'a', created_at: '2026-11-17T10:00:00.000000Z', sandbox_id: 'box-a' }),
      taskWith({ id: 'b', created_at: '2026-11-17T11:00:00.000000Z' }),
    ]
    const cards = listing({ ...emptyLists, tasks, sandboxes: [sandboxWith({ sandbox_id: 'box-a' })] })
    expect(cards.map((card) => card.taskId)).toEqual(['b', 'a'])
    expect(cards.map((card) => card.href)).toEqual(['/command?ticket=ticket-1', '/sandbox/box-a'])
  })

  it('has a card for a registered sandbox even before all tasks are loaded', () => {
    const sandboxes = [sandboxWith({ sandbox_id: 'by-hand', name: 'Played by hand', status: 'registered' })]
    expect(listing({ ...emptyLists, allTasks: false, sandboxes })).toMatchObject([
      { title: 'Played by hand', type: 'Sandbox', can: { fail: false, stop: true, retry: false } },
    ])
  })

  const task = taskWith({
    id: 'task-0123456789abcdef0123456',
    sandbox_id: 'task-0123456789abcdef012-2-aaaaaa',
    attempt: 2,
  })
  const earlier = (status: SandboxStatus) =>
    sandboxWith({ sandbox_id: 'task-0123456789abcdef012-1-bbbbbb', status, created_at: '2026-11-17T12:00:00.000000Z' })

  it('shows an earlier attempt below its task with the same title', () => {
    const cards = listing({ ...emptyLists, tasks: [task], sandboxes: [earlier('terminated')] })
    expect(cards.map(({ type, attempt, title }) => [type, attempt, title])).toEqual([
      ['Implement feature', 2, 'Count words'],
      ['Earlier attempt', 1, 'Count words'],
    ])
  })

  it('has no card for a sandbox whose task may not be loaded yet', () => {
    expect(listing({ ...emptyLists, allTasks: false, sandboxes: [earlier('terminated')] })).toEqual([])
    expect(listing({ ...emptyLists, tasks: [task], sandboxes: [earlier('creating')] })).toHaveLength(1)
  })
})

describe('a card', () => {
  it('shows why a task failed and offers a retry', () => {
    const failed = taskWith({ status: 'failed', error_message: 'marked_failed_by_user' })
    expect(listing({ ...emptyLists, tasks: [failed] })).toMatchObject([
      { error: 'Marked as failed by a user.', can: { fail: false, stop: false, retry: true } },
    ])
  })

  it('hides the error of an earlier attempt while the next one runs', () => {
    const running = taskWith({ status: 'running', error_message: 'The worker crashed.' })
    expect(listing({ ...emptyLists, tasks: [running] })).toMatchObject([
      { error: null, can: { fail: true, stop: true, retry: false } },
    ])
  })

  it('has no link for a task without ticket and sandbox', () => {
    expect(listing({ ...emptyLists, tasks: [taskWith({ ticket_id: null })] })[0]?.href).toBeNull()
  })
})

describe('the search', () => {
  const cards = listing({
    ...emptyLists,
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
  ])('%j finds %j', (query, found) => {
    expect(
      search(cards, query)
        .map((card) => card.taskId)
        .sort(),
    ).toEqual(found)
  })
})
