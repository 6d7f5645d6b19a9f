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
  TicketDetails,
} from '../../src/api/contract'
import { Worker } from './worker'

/** An event as a worker sends it. */
export interface WorkerEvent {
  event_type: string
  event_data: JsonObject
  source?: string
  event_id?: string
}

/** An HTTP client for setting up and checking the state of the control plane. */
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

  /** Creates a ticket without the duplicate check. */
  ticket(fields: JsonObject): Promise<TicketOut> {
    return this.post('/tickets', { force_create: true, ...fields })
  }

  showTicket(id: string): Promise<TicketDetails> {
    return this.get(`/tickets/${id}`)
  }

  async ticketsWith(title: string): Promise<TicketOut[]> {
    const { tickets } = await this.get<TicketList>('/tickets?limit=100')
    return tickets.filter((ticket) => ticket.title.includes(title))
  }

  async ticketWith(title: string): Promise<TicketOut> {
    return until(`ticket "${title}" to exist`, async () => (await this.ticketsWith(title))[0] ?? null)
  }

  /** Cancels the task of a ticket. */
  async cancel(ticket: TicketOut): Promise<void> {
    await this.post(`/tasks/${ticket.task_id ?? ''}/cancel`, {})
  }

  task(id: string): Promise<TaskOut> {
    return this.get(`/tasks/${id}`)
  }

  /** The task of a sandbox that runs one. */
  sandboxTask(id: string): Promise<TaskOut> {
    return this.get(`/sandboxes/${id}/task`)
  }

  sandbox(id: string): Promise<SandboxOut> {
    return this.get(`/sandboxes/${id}`)
  }

  /** Registers a sandbox whose worker is simulated by the test. */
  async register(name: string): Promise<Worker> {
    const id = `registered-${randomUUID().slice(0, 8)}`
    const { worker_token: token } = await this.post<Registered>('/sandboxes', { sandbox_id: id, name })
    return new Worker(id, new Api(this.url, token))
  }

  async terminate(id: string): Promise<void> {
    await this.send('DELETE', `/sandboxes/${id}`)
  }

  /** The complete log, oldest first. */
  async log(id: string): Promise<EventOut[]> {
    const events: EventOut[] = []
    for (let after = 0; ;) {
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

  /** Waits for the sandbox of a ticket. */
  async sandboxOf(ticketId: string): Promise<string> {
    return until(`ticket ${ticketId} to have a sandbox`, async () => {
      const ticket = await this.showTicket(ticketId)
      return ticket.tasks[0]?.sandbox_id ?? null
    })
  }

  async untilTask(id: string, status: TaskStatus): Promise<TaskOut> {
    return until(`task ${id} to be ${status}`, async () => {
      const task = await this.task(id)
      return task.status === status ? task : null
    })
  }

  async untilSandbox(id: string, status: SandboxStatus): Promise<SandboxOut> {
    return until(`sandbox ${id} to be ${status}`, async () => {
      const sandbox = await this.sandbox(id)
      return sandbox.status === status ? sandbox : null
    })
  }

  /** Waits until the log has at least `seq` events. */
  async untilSeq(id: string, seq: number): Promise<void> {
    await until(`sandbox ${id} to reach event ${seq}`, async () =>
      (await this.sandbox(id)).last_seq >= seq ? true : null,
    )
  }

  private async send<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${this.token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path} returned ${response.status}: ${text}`)
    // The types are generated from the contract of the control plane.
    return JSON.parse(text) as T
  }
}

/** Polls the control plane until a condition holds. Use `expect` to wait for what a page shows. */
export async function until<T>(condition: string, poll: () => Promise<T | null>, deadlineMs = 30_000): Promise<T> {
  const deadline = Date.now() + deadlineMs
  for (;;) {
    const found = await poll()
    if (found !== null) return found
    if (Date.now() > deadline) throw new Error(`Timed out after ${deadlineMs / 1000} s waiting for ${condition}.`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
