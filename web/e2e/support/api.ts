import { randomUUID } from 'node:crypto'
import type {
  EventOut,
  EventPage,
  JsonObject,
  MessageRecord,
  Registered,
  SandboxOut,
  SandboxStatus,
  TaskOut,
  TaskStatus,
  TicketList,
  TicketOut,
  TicketShown,
} from '../../src/api/contract'
import { Worker } from './worker'

/** An event as a worker sends it. */
export interface Told {
  event_type: string
  event_data: JsonObject
  source?: string
  event_id?: string
}

/** The plane over HTTP, as a test needs it: what it makes, and what is true there. */
export class Api {
  private readonly url: string
  private readonly token: string

  constructor(url: string, token: string) {
    this.url = url
    this.token = token
  }

  async get<T>(path: string): Promise<T> {
    return this.send<T>('GET', path)
  }

  async post<T>(path: string, body: unknown): Promise<T> {
    return this.send<T>('POST', path, body)
  }

  /** A ticket that nobody takes for another one. */
  ticket(fields: JsonObject): Promise<TicketOut> {
    return this.post('/tickets', { force_create: true, ...fields })
  }

  showTicket(id: string): Promise<TicketShown> {
    return this.get(`/tickets/${id}`)
  }

  async ticketsWith(words: string): Promise<TicketOut[]> {
    const { tickets } = await this.get<TicketList>('/tickets?limit=100')
    return tickets.filter((ticket) => ticket.title.includes(words))
  }

  async ticketWith(words: string): Promise<TicketOut> {
    return until(`there is a ticket "${words}"`, async () => (await this.ticketsWith(words))[0] ?? null)
  }

  /** Calls off what is done for a ticket. */
  async cancel(ticket: TicketOut): Promise<void> {
    await this.post(`/tasks/${ticket.task_id ?? ''}/cancel`, {})
  }

  task(id: string): Promise<TaskOut> {
    return this.get(`/tasks/${id}`)
  }

  sandbox(id: string): Promise<SandboxOut> {
    return this.get(`/sandboxes/${id}`)
  }

  /** A sandbox that the test itself plays. */
  async register(name: string): Promise<Worker> {
    const id = `by-hand-${randomUUID().slice(0, 8)}`
    const { worker_token: token } = await this.post<Registered>('/sandboxes', { sandbox_id: id, name })
    return new Worker(id, new Api(this.url, token))
  }

  /** The whole log, oldest first. */
  async log(id: string): Promise<EventOut[]> {
    const events: EventOut[] = []
    for (let after = 0; ; ) {
      const page = await this.get<EventPage>(`/sandboxes/${id}/events?order=oldest&limit=500&after_seq=${after}`)
      events.push(...page.events)
      if (!page.has_more || page.next_after_seq === null) return events
      after = page.next_after_seq
    }
  }

  async messages(id: string): Promise<MessageRecord[]> {
    const history = await this.get<{ messages: MessageRecord[] }>(`/sandboxes/${id}/messages/history`)
    return history.messages
  }

  /** The sandbox that works on a ticket, once there is one. */
  async sandboxOf(ticketId: string): Promise<string> {
    return until(`ticket ${ticketId} has a sandbox`, async () => {
      const ticket = await this.showTicket(ticketId)
      return ticket.tasks[0]?.sandbox_id ?? null
    })
  }

  async untilTask(id: string, status: TaskStatus): Promise<TaskOut> {
    return until(`task ${id} is ${status}`, async () => {
      const task = await this.task(id)
      return task.status === status ? task : null
    })
  }

  async untilSandbox(id: string, status: SandboxStatus): Promise<SandboxOut> {
    return until(`sandbox ${id} is ${status}`, async () => {
      const sandbox = await this.sandbox(id)
      return sandbox.status === status ? sandbox : null
    })
  }

  /** Waits until the log has so many events. */
  async untilSeq(id: string, seq: number): Promise<void> {
    await until(`sandbox ${id} is at event ${seq}`, async () => ((await this.sandbox(id)).last_seq >= seq ? true : null))
  }

  private async send<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${this.token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path} was answered with ${response.status}: ${text}`)
    // The plane's own contract, which these types are made from.
    return JSON.parse(text) as T
  }
}

/** Looks until there is something. For what the plane knows; what a page shows is waited for with `expect`. */
export async function until<T>(what: string, look: () => Promise<T | null>, deadlineMs = 30_000): Promise<T> {
  const deadline = Date.now() + deadlineMs
  for (;;) {
    const found = await look()
    if (found !== null) return found
    if (Date.now() > deadline) throw new Error(`It did not come to pass in ${deadlineMs / 1000} s that ${what}.`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
