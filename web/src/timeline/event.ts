import type { BodyOut, EventFrame, EventOut, JsonObject, JsonValue, KnownEventType, Source } from '../api/contract'

/** An event of a log, from a page or a socket. */
export interface LogEvent {
  /** Its position in the log. */
  seq: number
  id: string
  /** For example `agent.tool_use`. */
  type: EventType
  data: JsonObject
  source: Source
  /** When the control plane stored it. Pages and frames agree on this time. */
  at: string
  /** Where the full data is, if `data` is abridged. */
  body: BodyOut | null
}

/**
 * The type of an event. Workers may send any text. TypeScript rejects a comparison with a name that is neither known nor
 * foreign, so a renamed or removed event breaks the build instead of never matching.
 */
export type EventType = KnownEventType | ForeignEventType | UnlistedEventType

/** Event types of other workers that the console understands. */
export type ForeignEventType = 'agent.turn_complete'

/**
 * Any other text. `string` would accept every comparison, so the compiler is told that these contain a space, which no
 * event type does.
 */
type UnlistedEventType = `${string} ${string}`

/** Every text is an event type. */
export const eventType = (text: string) => text as EventType

export function fromPage(event: EventOut): LogEvent {
  return {
    seq: event.seq,
    id: event.id,
    type: eventType(event.event_type),
    data: event.event_data,
    source: event.source,
    at: event.created_at,
    body: event.body ?? null,
  }
}

/** `null` for ephemeral events, which have no position in the log. */
export function fromFrame(frame: EventFrame): LogEvent | null {
  if (frame.seq === null) return null
  const { source, original_event_type, body_ref, ...data } = frame.payload
  return {
    seq: frame.seq,
    id: frame.id,
    type: eventType(typeof original_event_type === 'string' ? original_event_type : frame.event_type),
    data,
    source: isSource(source) ? source : 'system',
    at: frame.timestamp,
    body: isBody(body_ref) ? body_ref : null,
  }
}

function isSource(value: JsonValue | undefined): value is Source {
  return value === 'agent' || value === 'worker' || value === 'user' || value === 'guardian' || value === 'system'
}

function isBody(value: unknown): value is BodyOut {
  return typeof value === 'object' && value !== null && 'size_bytes' in value && 'omitted' in value
}
