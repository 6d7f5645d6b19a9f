// @vitest-environment happy-dom
import { act, cleanup, screen, waitFor, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import SandboxesPage from './sandboxes'
import { mockLayout, show, socket } from './testing/page'
import { FakePlane, problem } from './testing/plane'
import { sandboxWith, taskWith } from './testing/samples'

vi.mock('../api/use-live', async () => ({ useLive: (await import('./testing/page')).socket.useLive }))

let plane: FakePlane
beforeEach(() => {
  plane = new FakePlane()
  plane.install()
  socket.connection = 'live'
  mockLayout()
})
afterEach(() => {
  cleanup()
  vi.unstubAllGlobals()
})

const open = (at = '/sandboxes') => show(<SandboxesPage />, '/sandboxes', at)
const address = () => screen.getByLabelText('Address').textContent
const titles = () => screen.queryAllByRole('heading', { level: 2 }).map((heading) => heading.textContent)
const filterButton = (name: RegExp) =>
  within(screen.getByRole('group', { name: 'Status' })).getByRole('button', { name })
const card = async (title: string) =>
  (await screen.findByRole('link', { name: title })).closest('article') ?? document.body

/** Adds tasks; later ones are newer. */
function has(...tasks: Parameters<typeof taskWith>[0][]) {
  for (const [place, task] of tasks.entries()) {
    const id = task.id ?? `task-${plane.tasks.size}`
    const created_at = new Date(Date.UTC(2026, 10, 17, 10, 0, plane.tasks.size + place)).toISOString()
    plane.tasks.set(id, taskWith({ created_at, ...task, id }))
  }
}

describe('the list', () => {
  it('shows placeholders while it loads', async () => {
    const { container } = open()
    expect(screen.getByRole('status', { name: 'Loading sandboxes…' })).toBeTruthy()
    expect(container.querySelectorAll('.animate-pulse')).toHaveLength(6)
    await screen.findByText('No sandboxes yet')
  })

  it('shows an error with a retry button', async () => {
    plane.before = (_, path) => (path.endsWith('/tasks') ? problem(403, 'forbidden') : null)
    open()
    await screen.findByText('You do not have permission to do this.')
    plane.before = () => null
    await userEvent.click(screen.getByRole('button', { name: 'Try again' }))
    await screen.findByText('No sandboxes yet')
  })

  it('distinguishes an empty list from no matches', async () => {
    has({ title: 'Count words', sandbox_id: 'box-1', status: 'running' })
    open('/sandboxes?q=nowhere&status=failed')
    await screen.findByText('No matches')
    await userEvent.click(screen.getByRole('button', { name: 'Clear filters' }))
    await screen.findByRole('link', { name: 'Count words' })
    expect(address()).toBe('/sandboxes')
  })

  it('loads every page and renders only visible cards', async () => {
    plane.pageSize = 100
    has(...Array.from({ length: 2_000 }, (_, number) => ({ title: `Work ${number}`, sandbox_id: `box-${number}` })))
    open()
    await screen.findByRole('heading', { level: 1, name: 'Sandboxes 2,000' }, { timeout: 10_000 })
    expect(screen.getAllByRole('listitem').length).toBeLessThan(60)
    expect(screen.getAllByRole('listitem')[0]?.getAttribute('aria-setsize')).toBe('2000')
  })
})

describe('filters and the search', () => {
  beforeEach(() => {
    has(
      { title: 'Count words', status: 'running', sandbox_id: 'box-1' },
      { title: 'Count lines', status: 'failed', sandbox_id: 'box-2' },
      { title: 'Draw a map', status: 'completed', sandbox_id: 'box-3' },
    )
  })

  it('are in the URL, and counts follow the search', async () => {
    open()
    await screen.findByRole('link', { name: 'Draw a map' })
    expect(filterButton(/^All 3$/)).toBeTruthy()
    await userEvent.type(screen.getByRole('searchbox'), 'COUNT')
    expect(titles()).toEqual(['Count lines', 'Count words'])
    expect(filterButton(/^All 2$/)).toBeTruthy()
    expect(filterButton(/^Completed 0$/)).toBeTruthy()
    await waitFor(() => expect(address()).toBe('/sandboxes?q=COUNT'))
    await userEvent.click(filterButton(/^Failed 1$/))
    expect(titles()).toEqual(['Count lines'])
    expect(address()).toBe('/sandboxes?q=COUNT&status=failed')
    expect(filterButton(/^Failed/).getAttribute('aria-pressed')).toBe('true')
  })

  it('are restored from the URL', async () => {
    open('/sandboxes?q=count&status=running')
    await waitFor(() => expect(titles()).toEqual(['Count words']))
    expect(screen.getByRole<HTMLInputElement>('searchbox').value).toBe('count')
  })

  it('are reachable with / and the cards with arrow keys', async () => {
    open()
    await screen.findByRole('link', { name: 'Draw a map' })
    await userEvent.keyboard('/')
    expect(document.activeElement).toBe(screen.getByRole('searchbox'))
    await userEvent.keyboard('{ArrowDown}')
    expect(document.activeElement?.textContent).toBe('Draw a map')
    await userEvent.keyboard('{End}')
    expect(document.activeElement?.textContent).toBe('Count words')
    await userEvent.keyboard('{ArrowLeft}{Enter}')
    expect(address()).toBe('/sandbox/box-2')
  })
})

describe('the actions of a card', () => {
  const choose = async (title: string, entry: string) => {
    await userEvent.click(within(await card(title)).getByRole('button', { name: `Actions for ${title}` }))
    await userEvent.click(await screen.findByRole('menuitem', { name: entry }))
  }

  it('mark a task as failed after confirmation and offer a retry', async () => {
    has({ id: 'task-a', title: 'Count words', status: 'running', sandbox_id: 'box-1' })
    open()
    await choose('Count words', 'Mark as failed')
    const dialog = await screen.findByRole('alertdialog')
    expect(plane.requests).not.toContain('POST /api/v1/tasks/task-a/fail')
    await userEvent.click(within(dialog).getByRole('button', { name: 'Mark as failed' }))
    await waitFor(async () => expect((await card('Count words')).textContent).toContain('Failed'))
    await userEvent.click(await screen.findByRole('button', { name: 'Retry' }))
    await waitFor(() => expect(plane.requests).toContain('POST /api/v1/tasks/task-a/retry'))
    await waitFor(async () => expect((await card('Count words')).textContent).toContain('Pending'))
  })

  it('do nothing if the confirmation is dismissed', async () => {
    has({ id: 'task-a', title: 'Count words', status: 'running', sandbox_id: 'box-1' })
    open()
    await choose('Count words', 'Stop')
    await userEvent.click(await screen.findByRole('button', { name: 'Keep running' }))
    expect(plane.requests.filter((request) => !request.startsWith('GET'))).toEqual([])
  })

  it('stop a task, or a sandbox without a task', async () => {
    has({ id: 'task-a', title: 'Count words', status: 'running', sandbox_id: 'box-1' })
    plane.sandboxes.set('by-hand', sandboxWith({ sandbox_id: 'by-hand', name: 'By hand' }))
    open()
    for (const title of ['Count words', 'By hand']) {
      await choose(title, 'Stop')
      await userEvent.click(within(await screen.findByRole('alertdialog')).getByRole('button', { name: 'Stop' }))
    }
    await waitFor(async () => expect((await card('By hand')).textContent).toContain('Stopped'))
    expect(plane.requests).toContain('POST /api/v1/tasks/task-a/cancel')
    expect(plane.requests).toContain('DELETE /api/v1/sandboxes/by-hand')
  })

  it('show an error message if they are rejected', async () => {
    has({ id: 'task-a', title: 'Count words', status: 'failed', sandbox_id: 'box-1' })
    plane.before = (method) => (method === 'POST' ? problem(403, 'forbidden') : null)
    open()
    await choose('Count words', 'Retry')
    await waitFor(() => expect(screen.getAllByText('You do not have permission to do this.').length).toBeGreaterThan(0))
  })

  it('include only what is possible', async () => {
    has({ title: 'Done with', status: 'completed', sandbox_id: 'box-1' })
    open()
    await userEvent.click(within(await card('Done with')).getByRole('button'))
    const entries = (await screen.findAllByRole('menuitem')).map((entry) => entry.textContent)
    expect(entries).toEqual(['Open', 'Copy ID', 'Compare with…'])
  })
})

describe('a live list', () => {
  it('adds a new task on top and reads only that one', async () => {
    has({ title: 'Count words', status: 'running', sandbox_id: 'box-1' })
    open()
    await screen.findByRole('link', { name: 'Count words' })
    has({ id: 'task-new', title: 'Draw a map' })
    const before = plane.requests.length
    socket.emit('task', 'task-new')
    await waitFor(() => expect(titles()).toEqual(['Draw a map', 'Count words']))
    expect(plane.requests.slice(before)).toEqual(['GET /api/v1/tasks/task-new'])
    plane.change('task-new', { status: 'running', sandbox_id: 'box-2' })
    socket.emit('task', 'task-new')
    await waitFor(async () => expect((await card('Draw a map')).textContent).toContain('Running'), { timeout: 3_000 })
  })

  it('reloads everything after a reconnect', async () => {
    has({ id: 'task-a', title: 'Count words', status: 'running', sandbox_id: 'box-1' })
    open()
    await screen.findByRole('link', { name: 'Count words' })
    plane.change('task-a', { status: 'completed' })
    act(() => socket.subscribed())
    await waitFor(async () => expect((await card('Count words')).textContent).toContain('Completed'))
  })

  it('polls the newest tasks while there is no socket', async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true })
    try {
      socket.connection = 'disconnected'
      has({ id: 'task-a', title: 'Count words', status: 'running', sandbox_id: 'box-1' })
      open()
      await screen.findByRole('link', { name: 'Count words' })
      plane.change('task-a', { status: 'failed', error_message: 'The worker crashed.' })
      await vi.advanceTimersByTimeAsync(6_000)
      await screen.findByText('The worker crashed.')
      expect(screen.getByRole('status', { name: /Disconnected/ })).toBeTruthy()
    } finally {
      vi.useRealTimers()
    }
  })
})
