// @vitest-environment happy-dom
import { act, cleanup, screen, waitFor, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import SandboxesPage from './sandboxes'
import { pretendLayout, show, socket } from './testing/page'
import { FakePlane, refusal } from './testing/plane'
import { sandboxWith, taskWith } from './testing/samples'

vi.mock('../api/use-live', async () => ({ useLive: (await import('./testing/page')).socket.useLive }))

let plane: FakePlane
beforeEach(() => {
  plane = new FakePlane()
  plane.install()
  socket.connection = 'live'
  pretendLayout()
})
afterEach(() => {
  cleanup()
  vi.unstubAllGlobals()
})

const open = (at = '/sandboxes') => show(<SandboxesPage />, '/sandboxes', at)
const address = () => screen.getByLabelText('Address').textContent
const titles = () => screen.queryAllByRole('heading', { level: 2 }).map((heading) => heading.textContent)
const filterButton = (name: RegExp) => within(screen.getByRole('group', { name: 'Status' })).getByRole('button', { name })
const card = async (title: string) => (await screen.findByRole('link', { name: title })).closest('article') ?? document.body

/** Later ones are newer. */
function has(...tasks: Parameters<typeof taskWith>[0][]) {
  for (const [place, task] of tasks.entries()) {
    const id = task.id ?? `task-${plane.tasks.size}`
    const created_at = new Date(Date.UTC(2026, 10, 17, 10, 0, plane.tasks.size + place)).toISOString()
    plane.tasks.set(id, taskWith({ created_at, ...task, id }))
  }
}

describe('the four states', () => {
  it('six places while it loads', async () => {
    const { container } = open()
    expect(screen.getByRole('status', { name: 'Loading sandboxes…' })).toBeTruthy()
    expect(container.querySelectorAll('.animate-pulse')).toHaveLength(6)
    await screen.findByText('No sandboxes yet')
  })

  it('an error in words, and a way to try again', async () => {
    plane.before = (_, path) => (path.endsWith('/tasks') ? refusal(403, 'forbidden') : null)
    open()
    await screen.findByText('Your role does not allow this.')
    plane.before = () => null
    await userEvent.click(screen.getByRole('button', { name: 'Try again' }))
    await screen.findByText('No sandboxes yet')
  })

  it('nothing at all, and nothing that matches, are not the same', async () => {
    has({ title: 'Count words', sandbox_id: 'box-1', status: 'running' })
    open('/sandboxes?q=nowhere&status=failed')
    await screen.findByText('Nothing matches')
    await userEvent.click(screen.getByRole('button', { name: 'Clear filters' }))
    await screen.findByRole('link', { name: 'Count words' })
    expect(address()).toBe('/sandboxes')
  })

  it('every page of a long list, of which only what is in sight is in the document', async () => {
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

  it('are in the address, and counts follow the search', async () => {
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

  it('come out of the address', async () => {
    open('/sandboxes?q=count&status=running')
    await waitFor(() => expect(titles()).toEqual(['Count words']))
    expect(screen.getByRole<HTMLInputElement>('searchbox').value).toBe('count')
  })

  it('are reached with /, and the cards with arrows', async () => {
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

describe('what can be done', () => {
  const choose = async (title: string, entry: string) => {
    await userEvent.click(within(await card(title)).getByRole('button', { name: `What to do with ${title}` }))
    await userEvent.click(await screen.findByRole('menuitem', { name: entry }))
  }

  it('a task is marked as failed after one question, and that can be taken back', async () => {
    has({ id: 'task-a', title: 'Count words', status: 'running', sandbox_id: 'box-1' })
    open()
    await choose('Count words', 'Mark as failed')
    const question = await screen.findByRole('alertdialog')
    expect(plane.asked).not.toContain('POST /api/v1/tasks/task-a/fail')
    await userEvent.click(within(question).getByRole('button', { name: 'Mark as failed' }))
    await waitFor(async () => expect((await card('Count words')).textContent).toContain('Failed'))
    await userEvent.click(await screen.findByRole('button', { name: 'Retry' }))
    await waitFor(() => expect(plane.asked).toContain('POST /api/v1/tasks/task-a/retry'))
    await waitFor(async () => expect((await card('Count words')).textContent).toContain('Pending'))
  })

  it('a question can be answered with no', async () => {
    has({ id: 'task-a', title: 'Count words', status: 'running', sandbox_id: 'box-1' })
    open()
    await choose('Count words', 'Stop')
    await userEvent.click(await screen.findByRole('button', { name: 'Keep it' }))
    expect(plane.asked.filter((request) => !request.startsWith('GET'))).toEqual([])
  })

  it('stopping cancels a task, and ends a sandbox that has none', async () => {
    has({ id: 'task-a', title: 'Count words', status: 'running', sandbox_id: 'box-1' })
    plane.sandboxes.set('by-hand', sandboxWith({ sandbox_id: 'by-hand', name: 'By hand' }))
    open()
    for (const title of ['Count words', 'By hand']) {
      await choose(title, 'Stop')
      await userEvent.click(within(await screen.findByRole('alertdialog')).getByRole('button', { name: 'Stop' }))
    }
    await waitFor(async () => expect((await card('By hand')).textContent).toContain('Stopped'))
    expect(plane.asked).toContain('POST /api/v1/tasks/task-a/cancel')
    expect(plane.asked).toContain('DELETE /api/v1/sandboxes/by-hand')
  })

  it('a refusal is said in words', async () => {
    has({ id: 'task-a', title: 'Count words', status: 'failed', sandbox_id: 'box-1' })
    plane.before = (method) => (method === 'POST' ? refusal(403, 'forbidden') : null)
    open()
    await choose('Count words', 'Retry')
    await waitFor(() => expect(screen.getAllByText('Your role does not allow this.').length).toBeGreaterThan(0))
  })

  it('only what is possible is offered', async () => {
    has({ title: 'Done with', status: 'completed', sandbox_id: 'box-1' })
    open()
    await userEvent.click(within(await card('Done with')).getByRole('button'))
    const entries = (await screen.findAllByRole('menuitem')).map((entry) => entry.textContent)
    expect(entries).toEqual(['Open', 'Copy id', 'Compare with…'])
  })
})

describe('a live list', () => {
  it('shows a new task on top and its new state, and reads only that one', async () => {
    has({ title: 'Count words', status: 'running', sandbox_id: 'box-1' })
    open()
    await screen.findByRole('link', { name: 'Count words' })
    has({ id: 'task-new', title: 'Draw a map' })
    const before = plane.asked.length
    socket.tell('task', 'task-new')
    await waitFor(() => expect(titles()).toEqual(['Draw a map', 'Count words']))
    expect(plane.asked.slice(before)).toEqual(['GET /api/v1/tasks/task-new'])
    plane.change('task-new', { status: 'running', sandbox_id: 'box-2' })
    socket.tell('task', 'task-new')
    await waitFor(async () => expect((await card('Draw a map')).textContent).toContain('Running'), { timeout: 3_000 })
  })

  it('reads everything again when the socket was away', async () => {
    has({ id: 'task-a', title: 'Count words', status: 'running', sandbox_id: 'box-1' })
    open()
    await screen.findByRole('link', { name: 'Count words' })
    plane.change('task-a', { status: 'completed' })
    act(() => socket.subscribed())
    await waitFor(async () => expect((await card('Count words')).textContent).toContain('Completed'))
  })

  it('looks at the newest every few seconds while there is no socket', async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true })
    try {
      socket.connection = 'disconnected'
      has({ id: 'task-a', title: 'Count words', status: 'running', sandbox_id: 'box-1' })
      open()
      await screen.findByRole('link', { name: 'Count words' })
      plane.change('task-a', { status: 'failed', error_message: 'The worker died.' })
      await vi.advanceTimersByTimeAsync(6_000)
      await screen.findByText('The worker died.')
      expect(screen.getByRole('status', { name: /Disconnected/ })).toBeTruthy()
    } finally {
      vi.useRealTimers()
    }
  })
})
