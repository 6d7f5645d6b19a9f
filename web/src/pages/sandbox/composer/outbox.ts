import { MESSAGE_TYPES, type MessageType } from '../../../api/contract'

/** A message that is not in the log yet. */
export interface Outgoing {
  /** Its own, before the first try: whatever is sent again under it is the same message. */
  readonly id: string
  readonly type: MessageType
  readonly content: string
  readonly at: string
  readonly state: 'sending' | 'failed' | 'queued'
  /** Why it was not sent. */
  readonly problem: string | null
  /** Where the log tells of it, once the plane has it. */
  readonly seq: number | null
}

export type Outbox = readonly Outgoing[]

export const MAX_CHARACTERS = 10_000

/** As the plane counts, which trims nothing: but only white space is no message. */
export const characters = (text: string) => Array.from(text).length

export function add(outbox: Outbox, message: Pick<Outgoing, 'id' | 'type' | 'content' | 'at'>): Outbox {
  return [...outbox, { ...message, state: 'sending', problem: null, seq: null }]
}

export const failed = (outbox: Outbox, id: string, problem: string) =>
  change(outbox, id, { state: 'failed', problem })

export const again = (outbox: Outbox, id: string) => change(outbox, id, { state: 'sending', problem: null })

export const queued = (outbox: Outbox, id: string, seq: number) =>
  change(outbox, id, { state: 'queued', problem: null, seq })

export const without = (outbox: Outbox, id: string) => outbox.filter((message) => message.id !== id)

/** What the log does not tell of yet: it is loaded up to `last`, and tells of the messages `told`. */
export function unseen(outbox: Outbox, last: number, told: ReadonlySet<string>): Outbox {
  const left = outbox.filter(({ id, seq }) => !told.has(id) && (seq === null || seq > last))
  return left.length === outbox.length ? outbox : left
}

/** For the browser's memory: what the plane has needs no keeping. */
export function encode(outbox: Outbox): string {
  return JSON.stringify(outbox.filter(({ state }) => state !== 'queued'))
}

/** Sent again by itself only while it is what the reader has just done; later that would be a surprise. */
const STILL_MEANT_MS = 10 * 60_000

/** What was kept. Whatever else is in there is not ours, and is left out. */
export function decode(text: string | null, now: number): Outbox {
  const kept = parse(text)
  if (!Array.isArray(kept)) return []
  return kept.filter(isOutgoing).map((message) =>
    message.state === 'sending' && now - Date.parse(message.at) > STILL_MEANT_MS
      ? { ...message, state: 'failed', problem: 'The page was closed before it was sent.' }
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
