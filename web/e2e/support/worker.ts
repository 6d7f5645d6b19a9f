import type { Api, WorkerEvent } from './api'

interface FetchedMessage {
  id: string
  content: string
  message_type: string
}

/** Maximum number of events in a batch. */
const MAX_BATCH = 100

/** A worker simulated by a test: emits events and handles messages. */
export class Worker {
  readonly id: string
  private readonly api: Api
  private batch = 0

  constructor(id: string, api: Api) {
    this.id = id
    this.api = api
  }

  /** Sends events in numbered batches. */
  async emit(...events: readonly WorkerEvent[]): Promise<void> {
    for (let from = 0; from < events.length; from += MAX_BATCH) {
      this.batch += 1
      const batch = this.batch
      await this.api.post(`/sandboxes/${this.id}/events`, {
        epoch: 1,
        batch,
        events: events.slice(from, from + MAX_BATCH).map((event, index) => ({
          event_id: `${this.id}.${batch}.${index}`,
          ...event,
        })),
      })
    }
  }

  /** Fetches messages without confirming them. They return after `visibility` seconds. */
  async pull({ visibility = 60, wait = 10 } = {}): Promise<FetchedMessage[]> {
    const path = `/sandboxes/${this.id}/messages?ack=manual&wait=${wait}&visibility=${visibility}`
    return (await this.api.get<{ messages: FetchedMessage[] }>(path)).messages
  }

  async confirm(message: string, state: 'delivered' | 'started' | 'completed' | 'cancelled'): Promise<void> {
    await this.api.post(`/sandboxes/${this.id}/messages/ack`, { receipts: [{ message_id: message, state }] })
  }
}
