import { vi } from 'vitest'
import type { Duplicates, EventOut, NewTicket, SandboxOut, TaskOut, TicketOut } from '../../api/contract'
import type { LogEvent } from '../../timeline/event'
import { shownWith, taskWith } from './samples'

/** A minimal control plane for page tests. Records requests. */
export class FakePlane {
  readonly tickets = new Map<string, TicketOut>()
  readonly tasks = new Map<string, TaskOut>()
  readonly sandboxes = new Map<string, SandboxOut>()
  /** By entity id. */
  readonly events = new Map<string, LogEvent[]>()
  readonly requests: string[] = []
  readonly createRequests: NewTicket[] = []
  duplicates: Duplicates | null = null
  pageSize = 100
  /** Overrides the response to a request; 'lost' processes the request but drops the response. */
  before: (method: string, path: string) => Response | 'lost' | null = () => null

  install() {
    vi.stubGlobal('fetch', async (address: string, request?: RequestInit) => {
      const { pathname, searchParams } = new URL(address, 'http://plane')
      const method = request?.method ?? 'GET'
      this.requests.push(`${method} ${pathname}`)
      const body = typeof request?.body === 'string' ? (JSON.parse(request.body) as unknown) : undefined
      const override = this.before(method, pathname)
      if (override instanceof Response) return override
      const response = this.respond(method, pathname.replace('/api/v1/', ''), searchParams, body)
      if (override === 'lost') throw new TypeError('Failed to fetch')
      return Promise.resolve(response)
    })
  }

  private respond(method: string, path: string, query: URLSearchParams, body: unknown): Response {
    const [kind = '', id = '', what = ''] = path.split('/').map(decodeURIComponent)
    if (what === 'events') return json({ events: (this.events.get(id) ?? []).map(toEventOut), has_more: false })
    if (kind === 'tickets') return this.ticket(method, id, what, query, body)
    if (kind === 'tasks') return this.task(method, id, what, query)
    if (kind === 'sandboxes') return this.sandbox(method, id, query)
    return problem(404, 'route_not_found')
  }

  private ticket(method: string, id: string, what: string, query: URLSearchParams, body: unknown): Response {
    if (method === 'POST' && id === '') return this.create(body as NewTicket)
    if (id === '') {
      const all = [...this.tickets.values()].reverse()
      const wanted = query.get('approval_status')
      const tickets = all.filter((ticket) => wanted === null || ticket.approval_status === wanted)
      return json({ tickets, next_cursor: null, has_more: false })
    }
    const ticket = this.tickets.get(id)
    if (ticket === undefined) return problem(404, 'not_found')
    if (what === 'approve') {
      this.tickets.set(id, { ...ticket, approval_status: 'approved' })
      this.tasks.set(`task-of-${id}`, taskWith({ id: `task-of-${id}`, ticket_id: id }))
    }
    const tasks = [...this.tasks.values()].filter((task) => task.ticket_id === id)
    return json({ ...ticket, ...this.tickets.get(id), tasks, has_more_tasks: false })
  }

  private create(request: NewTicket): Response {
    this.createRequests.push(request)
    if (this.duplicates !== null && request.force_create !== true) return json(this.duplicates)
    const id = request.ticket_id ?? 'generated-ticket'
    const ticket = shownWith({
      id,
      title: (request.description ?? '').slice(0, 100),
      description: request.description ?? '',
    })
    if (!this.tickets.has(id)) {
      this.tickets.set(id, ticket)
      this.tasks.set(`task-of-${id}`, taskWith({ id: `task-of-${id}`, ticket_id: id, title: ticket.title }))
    }
    return json(ticket)
  }

  private task(method: string, id: string, what: string, query: URLSearchParams): Response {
    if (id === '') {
      const { items, next } = this.page([...this.tasks.values()].reverse(), query)
      return json({ tasks: items, next_cursor: next, has_more: next !== null })
    }
    const task = this.tasks.get(id)
    if (task === undefined) return problem(404, 'not_found')
    const status = ({ fail: 'failed', cancel: 'cancelled', retry: 'pending' } as const)[what] ?? task.status
    if (method === 'POST') this.change(id, { status })
    return json(this.tasks.get(id))
  }

  private sandbox(method: string, id: string, query: URLSearchParams): Response {
    if (id === '') {
      const { items, next } = this.page([...this.sandboxes.values()].reverse(), query)
      return json({ sandboxes: items, next_cursor: next })
    }
    const sandbox = this.sandboxes.get(id)
    if (sandbox === undefined) return problem(404, 'not_found')
    if (method === 'DELETE')
      this.sandboxes.set(id, { ...sandbox, status: 'terminated', last_seq: sandbox.last_seq + 1 })
    return json(this.sandboxes.get(id))
  }

  /** Changes a task and its `updated_at`. */
  change(id: string, changes: Partial<TaskOut>) {
    const task = this.tasks.get(id) ?? taskWith({ id })
    const updated_at = new Date(Date.parse(task.updated_at) + 1_000).toISOString()
    this.tasks.set(id, { ...task, ...changes, updated_at })
  }

  private page<Item>(all: Item[], query: URLSearchParams): { items: Item[]; next: string | null } {
    const from = Number(query.get('cursor') ?? '0')
    const to = from + this.pageSize
    return { items: all.slice(from, to), next: to < all.length ? String(to) : null }
  }
}

export const json = (value: unknown, status = 200) =>
  new Response(JSON.stringify(value), { status, headers: { 'content-type': 'application/json' } })

export const problem = (status: number, code: string) =>
  json(
    { type: `urn:sunaba:problem:${code}`, title: 'Error', status, code, detail: `Error: ${code}.`, request_id: 'r' },
    status,
  )

function toEventOut(event: LogEvent): EventOut {
  return {
    sandbox_id: 'any',
    id: event.id,
    seq: event.seq,
    event_type: event.type,
    event_data: event.raw,
    source: event.source,
    created_at: event.at,
    emitted_at: null,
  }
}
