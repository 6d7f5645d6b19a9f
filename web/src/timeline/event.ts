import {
  FIELD_ALIASES,
  type AgentTurnCompleted,
  type BodyOut,
  type EventFrame,
  type EventOut,
  type JsonObject,
  type JsonValue,
  type KnownEventType,
  type PayloadOf,
  type Source,
} from '../api/contract'

/** An event of a log, from a page or a socket. Comparing its `type` narrows its `data`. */
export type LogEvent<T extends EventType = EventType> = T extends T ? EventOf<T> : never

interface EventOf<T extends EventType> {
  /** Its position in the log. */
  seq: number
  id: string
  /** For example `agent.tool_use`. */
  type: T
  /** Read it with `timeline/read.ts`. */
  data: EventData<T>
  /** The data as it was sent. */
  raw: JsonObject
  source: Source
  /** When the control plane stored it. Pages and frames agree on this time. */
  at: string
  /** Where the full data is, if `data` is abridged. */
  body: BodyOut | null
}

declare const typeOfData: unique symbol

/**
 * The data of an event of this type. It comes from workers of any version and vendor, so a field may be missing or have
 * another type: the functions of `timeline/read.ts` check it, and accept only the names of fields that the type has.
 */
export interface EventData<T extends EventType = EventType> {
  readonly [typeOfData]: T
}

/** The type of the data of an event, if it comes from our worker or the control plane. */
export type DataOf<T extends EventType> = T extends KnownEventType
  ? PayloadOf<T>
  : T extends ForeignEventType
    ? AgentTurnCompleted
    : object

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

/** An event with any type and data. */
export function logEvent(fields: Omit<LogEvent, 'type' | 'data'> & { type: string }): LogEvent {
  const type = eventType(fields.type)
  return { ...fields, type, data: dataOf(type, fields.raw) } as LogEvent
}

export function fromPage(event: EventOut): LogEvent {
  return logEvent({
    seq: event.seq,
    id: event.id,
    type: event.event_type,
    raw: event.event_data,
    source: event.source,
    at: event.created_at,
    body: event.body ?? null,
  })
}

/** `null` for ephemeral events, which have no position in the log. */
export function fromFrame(frame: EventFrame): LogEvent | null {
  if (frame.seq === null) return null
  const { source, original_event_type, body_ref, ...raw } = frame.payload
  return logEvent({
    seq: frame.seq,
    id: frame.id,
    type: typeof original_event_type === 'string' ? original_event_type : frame.event_type,
    raw,
    source: isSource(source) ? source : 'system',
    at: frame.timestamp,
    body: isBody(body_ref) ? body_ref : null,
  })
}

/** Other names of the fields of event data, if it has such names. Only a reader knows which value has the right type. */
export const ALIASES = Symbol('aliases')

/** The data of an event. Its fields may have the names of other workers and older versions. */
export function dataOf<T extends EventType>(type: T, raw: JsonObject): EventData<T> {
  const aliases = aliasesOf(type)
  const hasAlias = Object.values(aliases).some((names) => names.some((name) => Object.hasOwn(raw, name)))
  return (hasAlias ? { ...raw, [ALIASES]: aliases } : raw) as unknown as EventData<T>
}

/** The names of a field in the data as it was sent. */
export function namesOf(type: EventType, field: string): readonly string[] {
  return [field, ...otherNames(aliasesOf(type), field)]
}

export function otherNames(aliases: Aliases, field: string): readonly string[] {
  return Object.hasOwn(aliases, field) ? (aliases[field] ?? []) : []
}

export type Aliases = Readonly<Record<string, readonly string[]>>

const NO_ALIASES: Aliases = {}

function aliasesOf(type: EventType): Aliases {
  const all: Readonly<Record<string, Aliases | undefined>> = FIELD_ALIASES
  return Object.hasOwn(all, type) ? (all[type] ?? NO_ALIASES) : NO_ALIASES
}

function isSource(value: JsonValue | undefined): value is Source {
  return value === 'agent' || value === 'worker' || value === 'user' || value === 'guardian' || value === 'system'
}

function isBody(value: unknown): value is BodyOut {
  return typeof value === 'object' && value !== null && 'size_bytes' in value && 'omitted' in value
}
