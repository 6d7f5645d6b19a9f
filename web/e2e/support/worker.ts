import type { Api, Told } from './api'

interface Handed {
  id: string
  content: string
  message_type: string
}

/** How many events one batch may hold. */
const BATCH = 100

/** A sandbox's worker, played by a test: what it tells, and what it does with messages. */
export class Worker {
  readonly id: string
  private readonly api: Api
  private batch = 0

  constructor(id: string, api: Api) {
    this.id = id
    this.api = api
  }

  /** Tells events, in numbered batches. */
  async tell(...events: readonly Told[]): Promise<void> {
    for (let from = 0; from < events.length; from += BATCH) {
      this.batch += 1
      const batch = this.batch
      await this.api.post(`/sandboxes/${this.id}/events`, {
        epoch: 1,
        batch,
        events: events.slice(from, from + BATCH).map((event, index) => ({
          event_id: `${this.id}.${batch}.${index}`,
          ...event,
        })),
      })
    }
  }

  /** Takes what people have said, and has not confirmed it yet. */
  async pull(): Promise<Handed[]> {
    const path = `/sandboxes/${this.id}/messages?ack=manual&wait=10&visibility=60`
    return (await this.api.get<{ messages: Handed[] }>(path)).messages
  }

  async confirm(message: string, state: 'delivered' | 'started' | 'completed' | 'cancelled'): Promise<void> {
    await this.api.post(`/sandboxes/${this.id}/messages/ack`, { receipts: [{ message_id: message, state }] })
  }
}
