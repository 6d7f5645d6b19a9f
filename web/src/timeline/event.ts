import type { BodyOut, EventFrame, EventOut, JsonObject, JsonValue, Source } from '../api/contract'

/** An event of a log, wherever it came from: a page or a socket. */
export interface LogEvent {
  /** Its place in the log. */
  seq: number
  id: string
  /** As it was sent: `agent.tool_use`. */
  type: string
  data: JsonObject
  source: Source
  /** When the plane stored it: what pages and frames agree on. */
  at: string
  /** Where the rest of its data is, if this is not all. */
  body: BodyOut | null
}

export function fromPage(event: EventOut): LogEvent {
  return {
    seq: event.seq,
    id: event.id,
    type: event.event_type,
    data: event.event_data,
    source: event.source,
    at: event.created_at,
    body: event.body ?? null,
  }
}

/** `null` for what is fleeting: it has no place in a log. */
export function fromFrame(frame: EventFrame): LogEvent | null {
  if (frame.seq === null) return null
  const { source, original_event_type, body_ref, ...data } = frame.payload
  return {
    seq: frame.seq,
    id: frame.id,
    type: typeof original_event_type === 'string' ? original_event_type : frame.event_type,
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
