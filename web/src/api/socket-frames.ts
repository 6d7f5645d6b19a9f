import type { ClientFrame, ErrorFrame, EventFrame, JsonObject } from './contract'

/** What the plane says on a socket, as far as somebody has to do something about it. */
export type Heard =
  | { kind: 'events'; events: EventFrame[] }
  | { kind: 'subscribed' }
  | { kind: 'error'; error: ErrorFrame }
  /** A sign of life, or what a newer plane says and this console does not know. */
  | { kind: 'nothing' }

const NOTHING: Heard = { kind: 'nothing' }

/** Reads a frame. Whatever it is, the plane is there. */
export function hear(data: unknown): Heard {
  const frame = typeof data === 'string' ? parse(data) : null
  if (frame === null) return NOTHING
  if (isEventFrame(frame)) return { kind: 'events', events: [frame] }
  if (frame['type'] === 'events' && Array.isArray(frame['events'])) {
    return { kind: 'events', events: frame['events'].filter(isEventFrame) }
  }
  if (frame['status'] === 'subscribed') return { kind: 'subscribed' }
  if (typeof frame['error'] === 'string' && typeof frame['code'] === 'string') {
    return { kind: 'error', error: { error: frame['error'], code: frame['code'] } }
  }
  return NOTHING
}

export const say = (frame: ClientFrame) => JSON.stringify(frame)

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

/** What was parsed from JSON and is an object is a JSON object. */
const isJsonObject = (value: unknown): value is JsonObject => isObject(value)
