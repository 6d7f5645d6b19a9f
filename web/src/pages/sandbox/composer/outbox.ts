import { MESSAGE_TYPES, type MessageType } from '../../../api/contract'

/** A message that is not in the log yet. */
export interface Outgoing {
  /** Assigned before the first attempt, so that retries are idempotent. */
  readonly id: string
  readonly type: MessageType
  readonly content: string
  readonly at: string
  readonly state: 'sending' | 'failed' | 'queued'
  /** Why it was not sent. */
  readonly problem: string | null
  /** Sequence number of its log event, once the control plane has it. */
  readonly seq: number | null
}

export type Outbox = readonly Outgoing[]

export const MAX_CHARACTERS = 10_000

/** Length in code points, as the control plane counts it. */
export const characters = (text: string) => Array.from(text).length

export function add(outbox: Outbox, message: Pick<Outgoing, 'id' | 'type' | 'content' | 'at'>): Outbox {
  return [...outbox, { ...message, state: 'sending', problem: null, seq: null }]
}

export const failed = (outbox: Outbox, id: string, problem: string) => change(outbox, id, { state: 'failed', problem })

export const retrying = (outbox: Outbox, id: string) => change(outbox, id, { state: 'sending', problem: null })

export const queued = (outbox: Outbox, id: string, seq: number) =>
  change(outbox, id, { state: 'queued', problem: null, seq })

export const without = (outbox: Outbox, id: string) => outbox.filter((message) => message.id !== id)

/** Messages that are not in the log, which is loaded up to `last` and contains the messages `logged`. */
export function unlogged(outbox: Outbox, last: number, logged: ReadonlySet<string>): Outbox {
  const remaining = outbox.filter(({ id, seq }) => !logged.has(id) && (seq === null || seq > last))
  return remaining.length === outbox.length ? outbox : remaining
}

/** For the browser storage. Queued messages are stored by the control plane and are left out. */
export function encode(outbox: Outbox): string {
  return JSON.stringify(outbox.filter(({ state }) => state !== 'queued'))
}

/** Messages are resent automatically only for a short time; later it would surprise the user. */
const AUTO_RESEND_MS = 10 * 60_000

/** Reads stored messages and skips invalid data. */
export function decode(text: string | null, now: number): Outbox {
  const stored = parse(text)
  if (!Array.isArray(stored)) return []
  return stored
    .filter(isOutgoing)
    .map((message) =>
      message.state === 'sending' && now - Date.parse(message.at) > AUTO_RESEND_MS
        ? { ...message, state: 'failed', problem: 'The page was closed before the message was sent.' }
        : message,
    )
}

function change(outbox: Outbox, id: string, what: Partial<Outgoing>): Outbox {
  return outbox.map((message) => (message.id === id ? { ...message, ...what } : message))
}

function parse(text: string | null): unknown {
  try {
    return text === null ? null : JSON.parse(text)
  } catch {
    return null
  }
}

function isOutgoing(value: unknown): value is Outgoing {
  if (typeof value !== 'object' || value === null) return false
  const { id, type, content, at, state, problem, seq } = value as Record<string, unknown>
  return (
    typeof id === 'string' &&
    MESSAGE_TYPES.some((known) => known === type) &&
    typeof content === 'string' &&
    typeof at === 'string' &&
    (state === 'sending' || state === 'failed') &&
    (problem === null || typeof problem === 'string') &&
    seq === null
  )
}
