import type { BodyOut, EventFrame, EventOut, JsonObject, JsonValue, Source } from '../api/contract'

/** An event of a log, from a page or a socket. */
export interface LogEvent {
  /** Its position in the log. */
  seq: number
  id: string
  /** For example `agent.tool_use`. */
  type: string
  data: JsonObject
  source: Source
  /** When the control plane stored it. Pages and frames agree on this time. */
  at: string
  /** Where the full data is, if `data` is abridged. */
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

/** `null` for ephemeral events, which have no position in the log. */
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
