// @vitest-environment happy-dom
import { cleanup, screen, waitFor, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import CommandPage from './command'
import { show, socket } from './testing/page'
import { FakePlane, problem } from './testing/plane'
import { eventWith, shownWith, taskWith } from './testing/samples'

vi.mock('../api/use-live', async () => ({ useLive: (await import('./testing/page')).socket.useLive }))

let plane: FakePlane
beforeEach(() => {
  localStorage.clear()
  plane = new FakePlane()
  plane.install()
  socket.connection = 'live'
})
afterEach(() => {
  cleanup()
  vi.unstubAllGlobals()
})

const open = (at = '/command') => show(<CommandPage />, '/command', at)
const prompt = () => screen.getByRole('textbox', { name: 'What should the agent do?' })
const address = () => screen.getByLabelText('Address').textContent
const ticketInAddress = () => new URLSearchParams(address().split('?')[1]).get('ticket') ?? ''

describe('the prompt', () => {
  it('is focused, breaks lines with Shift+Enter and submits with Enter', async () => {
    open()
    expect(document.activeElement).toBe(prompt())
    await userEvent.keyboard('Count words{Shift>}{Enter}{/Shift}of a text')
    expect(plane.createRequests).toHaveLength(0)
    await userEvent.keyboard('{Enter}')
    await waitFor(() => expect(address()).toMatch(/^\/command\?ticket=ticket-/))
    expect(plane.createRequests).toMatchObject([{ description: 'Count words\nof a text', workflow_mode: 'quick' }])
    expect(ticketInAddress()).toBe(plane.createRequests[0]?.ticket_id)
  })

  it('sends the repository and its base branch, and hints at paths on a local plane', async () => {
    open()
    const repository = screen.getByRole<HTMLInputElement>('combobox', { name: 'Repository' })
    expect(repository.placeholder).toContain('path (operators only)')
    await userEvent.type(repository, '/srv/shop')
    await userEvent.type(screen.getByRole('combobox', { name: 'Base branch' }), 'develop')
    await userEvent.type(prompt(), 'Count words{Enter}')
    await waitFor(() =>
      expect(plane.createRequests).toMatchObject([{ repository: '/srv/shop', base_branch: 'develop' }]),
    )
  })

  it('does not submit blank text', async () => {
    open()
    await userEvent.keyboard('   {Enter}')
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Start' }).disabled).toBe(true)
    expect(plane.createRequests).toEqual([])
  })

  it('and its options survive a reload; only the options survive submitting', async () => {
    const { unmount } = open()
    await userEvent.type(prompt(), 'Half a thought')
    await userEvent.type(screen.getByRole('combobox', { name: 'Agent' }), 'scripted:hello')
    unmount()
    const again = open()
    expect(screen.getByDisplayValue('Half a thought')).toBe(prompt())
    await userEvent.type(prompt(), '{Enter}')
    await waitFor(() => expect(plane.createRequests).toMatchObject([{ agent: 'scripted:hello' }]))
    await screen.findByRole('list', { name: 'Progress' })
    again.unmount()
    open()
    expect(screen.getByDisplayValue('scripted:hello')).toBe(screen.getByRole('combobox', { name: 'Agent' }))
    expect(screen.queryByDisplayValue('Half a thought')).toBeNull()
  })

  it('is kept when the response is lost, and a retry creates no second ticket', async () => {
    open()
    let isLost = true
    plane.before = (method) => (method === 'POST' && isLost ? 'lost' : null)
    await userEvent.type(prompt(), 'Once{Enter}')
    expect((await screen.findByRole('alert')).textContent).toMatch(/Cannot reach/)
    expect(screen.getByDisplayValue('Once')).toBe(prompt())
    isLost = false
    await userEvent.type(prompt(), '{Enter}')
    await waitFor(() => expect(address()).toMatch(/ticket=/))
    expect(new Set(plane.createRequests.map((request) => request.ticket_id)).size).toBe(1)
    expect(plane.tickets.size).toBe(1)
  })

  it('explains missing permission', async () => {
    open()
    plane.before = (method) => (method === 'POST' ? problem(403, 'forbidden') : null)
    await userEvent.type(prompt(), 'Please{Enter}')
    expect((await screen.findByRole('alert')).textContent).toMatch(/do not have permission/)
  })

  it('lists similar tickets and can be created anyway with the same id', async () => {
    const like = { ticket_id: 'ticket-7', title: 'Count the words', description: '', status: 'building' as const }
    plane.duplicates = {
      is_duplicate: true,
      message: 'There is one.',
      candidates: [{ ...like, similarity_score: 0.93 }],
      highest_similarity: 0.93,
    }
    open()
    await userEvent.type(prompt(), 'Count words{Enter}')
    const alert = await screen.findByRole('alert')
    expect(within(alert).getByRole('link', { name: 'Count the words' }).getAttribute('href')).toBe(
      '/command?ticket=ticket-7',
    )
    expect(alert.textContent).toMatch(/93% similar/)
    await userEvent.click(within(alert).getByRole('button', { name: 'Create anyway' }))
    await waitFor(() => expect(address()).toMatch(/ticket=/))
    expect(plane.createRequests).toMatchObject([{}, { force_create: true }])
    expect(plane.createRequests[0]?.ticket_id).toBe(plane.createRequests[1]?.ticket_id)
  })
})

describe("a ticket's progress", () => {
  beforeEach(() => {
    plane.tickets.set('mine', shownWith({ id: 'mine', title: 'My own ticket' }))
    plane.tasks.set('task-mine', taskWith({ id: 'task-mine', ticket_id: 'mine' }))
  })
  const claim = (task: string, sandbox: string, ...types: string[]) => {
    plane.change(task, { status: 'assigned', sandbox_id: sandbox, attempt: 1 })
    plane.events.set(task, [eventWith('task.claimed', {}, 1)])
    plane.events.set(
      sandbox,
      types.map((type, index) => eventWith(type, {}, index + 1)),
    )
  }

  it('resumes after a reload, follows the socket and opens its sandbox', async () => {
    open('/command?ticket=mine')
    await screen.findByText('Waiting for a free slot')
    claim('task-mine', 'box-mine', 'sandbox.creating')
    socket.emit('sandbox', 'box-mine', { ticket_id: 'mine' })
    await screen.findByText('Creating sandbox')
    claim('task-mine', 'box-mine', 'sandbox.creating', 'sandbox.spawned')
    socket.emit('sandbox', 'box-mine', { ticket_id: 'mine' })
    await screen.findByText('The sandbox page')
    expect(address()).toBe('/sandbox/box-mine')
  })

  it('ignores the sandbox of another ticket', async () => {
    open('/command?ticket=mine')
    await screen.findByText('Waiting for a free slot')
    plane.tasks.set('task-theirs', taskWith({ id: 'task-theirs', ticket_id: 'theirs' }))
    claim('task-theirs', 'box-theirs', 'sandbox.spawned')
    const before = plane.requests.length
    vi.useFakeTimers({ shouldAdvanceTime: true })
    try {
      socket.emit('sandbox', 'box-theirs', { ticket_id: 'theirs', sandbox_id: 'box-theirs' })
      await vi.advanceTimersByTimeAsync(2_000)
    } finally {
      vi.useRealTimers()
    }
    expect(plane.requests.slice(before)).toEqual([])
    expect(address()).toBe('/command?ticket=mine')
    claim('task-mine', 'box-mine', 'sandbox.spawned')
    socket.emit('sandbox', 'box-mine', { ticket_id: 'mine' })
    await waitFor(() => expect(address()).toBe('/sandbox/box-mine'))
  })

  it('is polled while there is no socket', async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true })
    try {
      socket.connection = 'reconnecting'
      open('/command?ticket=mine')
      await screen.findByText('Waiting for a free slot')
      claim('task-mine', 'box-mine', 'sandbox.spawned')
      await vi.advanceTimersByTimeAsync(3_500)
      await waitFor(() => expect(address()).toBe('/sandbox/box-mine'))
    } finally {
      vi.useRealTimers()
    }
  })

  it('can be cancelled and retried', async () => {
    open('/command?ticket=mine')
    await userEvent.click(await screen.findByRole('button', { name: 'Cancel' }))
    await screen.findByText('Ticket cancelled.')
    expect(plane.tasks.get('task-mine')?.status).toBe('cancelled')
    await userEvent.click(screen.getByRole('button', { name: 'Retry' }))
    await screen.findByText('Waiting for a free slot')
  })

  it('waits for approval, which can be given on the page', async () => {
    plane.tasks.clear()
    plane.tickets.set('mine', shownWith({ id: 'mine', approval_status: 'pending_review' }))
    open('/command?ticket=mine')
    await screen.findByText('Waiting for approval')
    await userEvent.click(screen.getByRole('button', { name: 'Approve' }))
    await screen.findByText('Waiting for a free slot')
  })

  it('shows an empty state for an unknown ticket', async () => {
    open('/command?ticket=unknown')
    await screen.findByText('Ticket not found')
  })
})

describe('recent tickets', () => {
  it('link to their sandbox or to their progress', async () => {
    plane.tickets.set('old', shownWith({ id: 'old', title: 'An old ticket', status: 'done' }))
    plane.tasks.set('t-old', taskWith({ id: 't-old', ticket_id: 'old', status: 'completed', sandbox_id: 'box-old' }))
    plane.tickets.set('new', shownWith({ id: 'new', title: 'A new ticket' }))
    plane.tasks.set('t-new', taskWith({ id: 't-new', ticket_id: 'new' }))
    open()
    const link = async (name: string) => (await screen.findByRole('link', { name })).getAttribute('href')
    await screen.findByText('Completed')
    expect(await link('An old ticket')).toBe('/sandbox/box-old')
    expect(await link('A new ticket')).toBe('/command?ticket=new')
  })

  it('show a load error and retry', async () => {
    plane.before = (method, path) => (method === 'GET' && path.endsWith('/tickets') ? problem(500, 'internal') : null)
    open()
    const retry = await screen.findByRole('button', { name: 'Try again' })
    plane.before = () => null
    await userEvent.click(retry)
    await screen.findByText(/No tickets yet/)
  })
})
