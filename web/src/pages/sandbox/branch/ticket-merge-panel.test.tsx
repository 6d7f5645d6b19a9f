// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { cleanup, render, screen, waitFor } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { TicketMerge, TicketTask } from '../../../api/contract'
import { json } from '../../testing/plane'
import { finishedTasks, TicketMergePanel } from './ticket-merge-panel'

const task = (id: string, task_type = 'implement_feature'): TicketTask => ({
  id,
  title: id,
  task_type,
  status: 'completed',
  sandbox_id: null,
  created_at: '2026-01-01T00:00:00.000000Z',
})

const at = '2026-01-01T00:00:00.000000Z'
const branch = (task_id: string) => ({ task_id, branch: `fix/${task_id}`, since: at, conflicts: 0 })
const merge: TicketMerge = {
  state: 'ended',
  method: 'squash',
  delete_branches: true,
  resolve_conflicts: true,
  by: { kind: 'user' },
  started_at: at,
  branches: [
    { ...branch('a'), state: 'merged', commit: 'abcdef0123456789' },
    { ...branch('b'), state: 'conflict', reason: 'It conflicts with main in lines.' },
  ],
  is_ordered: true,
  next_at: at,
  failures: 0,
}

let ticket: { tasks: TicketTask[]; merge: TicketMerge | null }
let sent: unknown[]

beforeEach(() => {
  ticket = { tasks: [task('a'), task('b')], merge: null }
  sent = []
  vi.stubGlobal('fetch', (_: string, request?: RequestInit) => {
    if (request?.method === 'POST') {
      sent.push(typeof request.body === 'string' ? JSON.parse(request.body) : null)
      ticket.merge = { ...merge, state: 'running' }
    }
    return Promise.resolve(json(ticket))
  })
})
afterEach(() => {
  cleanup()
  vi.unstubAllGlobals()
})

function show() {
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  render(
    <QueryClientProvider client={queries}>
      <TicketMergePanel ticketId="k" />
    </QueryClientProvider>,
  )
}

test('all finished branches of a ticket are merged, with an agent for conflicts if that is wanted', async () => {
  show()
  expect((await screen.findByRole('region', { name: 'Branches of the ticket' })).textContent).toContain('2 tasks')
  await userEvent.click(screen.getByRole('checkbox', { name: 'Let an agent resolve conflicts' }))
  await userEvent.click(screen.getByRole('button', { name: 'Merge all branches' }))
  await waitFor(() => expect(sent).toEqual([{ resolve_conflicts: true }]))
  expect((await screen.findByRole('status')).textContent).toContain('Merging 1 of 2 branches')
  expect(screen.queryByRole('button', { name: 'Merge all branches' })).toBeNull()
})

test('the result names each branch with its commit or reason', async () => {
  ticket.merge = merge
  show()
  expect((await screen.findByRole('status')).textContent).toBe('Merged 1 of 2 branches')
  const [first, second] = screen.getAllByRole('listitem').map((item) => item.textContent)
  expect(first).toContain('fix/a')
  expect(first).toContain('as abcdef0')
  expect(second).toContain('Conflict')
  expect(second).toContain('It conflicts with main in lines.')
})

test('only tasks with work of their own count', () => {
  const running: TicketTask = { ...task('d'), status: 'running' }
  const tasks = [task('a'), task('b', 'analyze_requirements'), task('c', 'resolve_conflicts'), running]
  expect(finishedTasks({ tasks })).toBe(1)
})
