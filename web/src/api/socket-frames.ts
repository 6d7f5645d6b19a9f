import type { ClientFrame, ErrorFrame, EventFrame, JsonObject } from './contract'

/** A frame from the control plane, reduced to what the console acts on. */
export type ReceivedFrame =
  | { kind: 'events'; events: EventFrame[] }
  | { kind: 'subscribed' }
  | { kind: 'error'; error: ErrorFrame }
  /** A keep-alive, or a frame of a newer control plane that this console does not know. */
  | { kind: 'ignored' }

const IGNORED: ReceivedFrame = { kind: 'ignored' }

/** Parses a frame. Never throws: unknown and malformed frames are ignored. */
export function parseFrame(data: unknown): ReceivedFrame {
  const frame = typeof data === 'string' ? parse(data) : null
  if (frame === null) return IGNORED
  if (isEventFrame(frame)) return { kind: 'events', events: [frame] }
  if (frame['type'] === 'events' && Array.isArray(frame['events'])) {
    return { kind: 'events', events: frame['events'].filter(isEventFrame) }
  }
  if (frame['status'] === 'subscribed') return { kind: 'subscribed' }
  if (typeof frame['error'] === 'string' && typeof frame['code'] === 'string') {
    return { kind: 'error', error: { error: frame['error'], code: frame['code'] } }
  }
  return IGNORED
}

export const encodeFrame = (frame: ClientFrame) => JSON.stringify(frame)

function parse(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : null
  } catch {
    return null
  }
}

function isEventFrame(value: unknown): value is EventFrame {
  return (
    isObject(value) &&
    (value['seq'] === null || typeof value['seq'] === 'number') &&
    typeof value['id'] === 'string' &&
    typeof value['event_type'] === 'string' &&
    typeof value['entity_type'] === 'string' &&
    typeof value['entity_id'] === 'string' &&
    typeof value['timestamp'] === 'string' &&
    isJsonObject(value['payload'])
  )
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** An object that was parsed from JSON is a JSON object. */
const isJsonObject = (value: unknown): value is JsonObject => isObject(value)
