// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider, useQuery } from '@tanstack/react-query'
import { act, cleanup, render, screen } from '@testing-library/react'
import { StrictMode } from 'react'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { taskDiffQuery } from './branch-queries'
import { frame } from './fake-plane'
import { useSandbox, useSandboxTask } from './queries'
import { useLog } from './use-log'

/** Replaces the browser's `WebSocket`. */
class FakeWebSocket {
  static readonly OPEN = 1
  static all: FakeWebSocket[] = []
  readyState = 1
  onopen: (() => void) | null = null
  onmessage: ((message: { data: string }) => void) | null = null
  onclose: (() => void) | null = null
  readonly sent: string[] = []

  constructor() {
    FakeWebSocket.all.push(this)
  }

  send(text: string) {
    this.sent.push(text)
  }

  close() {
    this.readyState = 3
  }

  receive(value: unknown) {
    act(() => this.onmessage?.({ data: JSON.stringify(value) }))
  }
}

const open = () => FakeWebSocket.all.filter(({ readyState }) => readyState === 1)

let status = 'running'
let taskStatus = 'running'
let ahead = 0

beforeEach(() => {
  FakeWebSocket.all = []
  status = taskStatus = 'running'
  ahead = 0
  vi.stubGlobal('WebSocket', FakeWebSocket)
  vi.stubGlobal('fetch', (path: string) => {
    if (path.includes('/events')) {
      return Promise.resolve(
        Response.json({
          sandbox_id: 's',
          events: [],
          total_count: 0,
          last_seq: 0,
          has_more: false,
          next_after_seq: null,
          next_before_seq: null,
        }),
      )
    }
    if (path.endsWith('/diff')) return Promise.resolve(Response.json({ ahead }))
    return Promise.resolve(
      Response.json(path.endsWith('/task') ? { id: 't', ticket_id: 'k', status: taskStatus } : { status }),
    )
  })
})
afterEach(() => {
  cleanup()
  vi.unstubAllGlobals()
})

function Page() {
  const log = useLog('s')
  const sandbox = useSandbox('s').data?.status
  const task = useSandboxTask('s').data?.status
  return <p>{`${log.connection} ${log.state}, sandbox ${String(sandbox)}, task ${String(task)}, ${log.last} events`}</p>
}

function Commits() {
  const diff = useQuery({ ...taskDiffQuery('t'), staleTime: Infinity }).data
  return <p>{`${String(diff?.ahead)} commits`}</p>
}

async function shown() {
  const view = render(
    <StrictMode>
      <QueryClientProvider client={new QueryClient()}>
        <Page />
        <Commits />
      </QueryClientProvider>
    </StrictMode>,
  )
  const [socket] = open()
  if (socket === undefined) throw new Error('no socket')
  act(() => socket.onopen?.())
  socket.receive({ status: 'subscribed', filters: {}, batch: true })
  await screen.findByText('live ready, sandbox running, task running, 0 events')
  return { socket, ...view }
}

describe('a page that follows a sandbox', () => {
  it('uses one socket for sandbox, task and ticket and closes it on unmount', async () => {
    const { socket, unmount } = await shown()
    await vi.waitFor(() => expect(socket.sent.at(-1)).toContain('"entity_ids":["s","t","k"]'))
    expect(open()).toHaveLength(1)
    unmount()
    expect(open()).toHaveLength(0)
  })

  it('refetches the status when the log shows a change', async () => {
    const { socket } = await shown()
    status = 'completed'
    socket.receive(frame({ id: 'e', seq: 1, type: 'sandbox.completed', data: {}, at: '2026-01-01T12:00:00Z' }))
    await screen.findByText('live ready, sandbox completed, task running, 1 events')
  })

  it('refetches the task when it has a new event', async () => {
    const { socket } = await shown()
    taskStatus = 'validating'
    const event = frame({ id: 'e', seq: 3, type: 'task.validating', data: {}, at: '2026-01-01T12:00:00Z' })
    socket.receive({ ...event, event_type: 'TASK_VALIDATING', entity_type: 'task', entity_id: 't' })
    await screen.findByText('live ready, sandbox running, task validating, 0 events')
  })

  it('refetches the changes of the branch when the worker has pushed', async () => {
    const { socket } = await shown()
    await screen.findByText('0 commits')
    ahead = 1
    socket.receive(frame({ id: 'e', seq: 1, type: 'workspace.pushed', data: {}, at: '2026-01-01T12:00:00Z' }))
    await screen.findByText('1 commits')
  })

  it.each(['task.pull_request_opened', 'task.merged'])('refetches the state of the branch after %s', async (type) => {
    const { socket } = await shown()
    await screen.findByText('0 commits')
    ahead = 2
    const event = frame({ id: 'e', seq: 3, type, data: {}, at: '2026-01-01T12:00:00Z' })
    socket.receive({ ...event, entity_type: 'task', entity_id: 't' })
    await screen.findByText('2 commits')
  })
})
