import type { JsonObject, JsonValue } from '../api/contract'
import {
  ALIASES,
  namesOf,
  otherNames,
  type Aliases,
  type DataOf,
  type EventData,
  type EventType,
  type LogEvent,
} from './event'

// Event data comes from workers of any version and vendor. These functions never throw; unexpected data reads as `null`.
//
// The data of an event is read by the names of its payload (`api/contract.ts`), so a renamed field breaks the build. If
// an event has one of several types, each must have the field. If only some have it, the functions named `some…` are
// called with these types, and each of these must have it: `someText<'preview.ready'>(data, 'url')`. JSON that is not
// ours is read by any name: the input of a tool, and in `event.raw` the fields of other workers.

/** The names of fields that every one of these event types has, and that may hold a value of this type. */
export type Field<T extends EventType, Value = JsonValue> = FieldOf<DataOf<T>, Value>

type FieldOf<Data, Value> = {
  [Name in keyof Data & string]-?: Extract<NonNullable<Data[Name]>, Value> extends never ? never : Name
}[keyof Data & string]

export function text<T extends EventType>(data: EventData<T>, field: Field<T, string>): string | null
export function text(data: JsonObject, field: string): string | null
export function text(data: object, field: string): string | null {
  return find(data, field, isText)
}

export function number<T extends EventType>(data: EventData<T>, field: Field<T, number>): number | null
export function number(data: JsonObject, field: string): number | null
export function number(data: object, field: string): number | null {
  return find(data, field, isNumber)
}

/** Whether the field is `true`. */
export function flag<T extends EventType>(data: EventData<T>, field: Field<T, boolean>): boolean
export function flag(data: JsonObject, field: string): boolean
export function flag(data: object, field: string): boolean {
  return find(data, field, isBoolean) === true
}

/** Whether the field is `false`, and not just missing. */
export function isFalse<T extends EventType>(data: EventData<T>, field: Field<T, boolean>): boolean {
  return find(data, field, isBoolean) === false
}

export function object<T extends EventType>(data: EventData<T>, field: Field<T, object>): JsonObject | null
export function object(data: JsonObject, field: string): JsonObject | null
export function object(data: object, field: string): JsonObject | null {
  return find(data, field, isObject)
}

export function list<T extends EventType>(data: EventData<T>, field: Field<T, object>): JsonValue[]
export function list(data: JsonObject, field: string): JsonValue[]
export function list(data: object, field: string): JsonValue[] {
  return find(data, field, isList) ?? []
}

/** The value of a field, whatever it is. */
export function json<T extends EventType>(data: EventData<T>, field: Field<T, JsonValue | object>): JsonValue {
  return find(data, field, isPresent)
}

/** The first of these fields that holds a non-blank string. */
export function firstText<T extends EventType>(data: EventData<T>, ...fields: Field<T, string>[]): string | null
export function firstText(data: JsonObject, ...fields: string[]): string | null
export function firstText(data: object, ...fields: string[]): string | null {
  for (const field of fields) {
    const value = find(data, field, isText)
    if (value !== null && /\S/.test(value)) return value
  }
  return null
}

/** A non-blank string in a field that the event types `Owner` have, read from an event of any type. */
export function someText<Owner extends EventType>(data: EventData, field: Field<Owner, string>): string | null {
  return firstText(data as unknown as JsonObject, field)
}

export function someNumber<Owner extends EventType>(data: EventData, field: Field<Owner, number>): number | null {
  return number(data as unknown as JsonObject, field)
}

export function someFlag<Owner extends EventType>(data: EventData, field: Field<Owner, boolean>): boolean {
  return flag(data as unknown as JsonObject, field)
}

/** The value of the right type under the field's own name, otherwise under another name, as the plane chooses it. */
function find<Value extends JsonValue>(
  data: object,
  field: string,
  isRight: (value: JsonValue | undefined) => value is Value,
): Value | null {
  const own = valueOf(data, field)
  if (isRight(own)) return own
  const { [ALIASES]: aliases } = data as { [ALIASES]?: Aliases }
  if (aliases === undefined) return null
  return (
    otherNames(aliases, field)
      .map((name) => valueOf(data, name))
      .find(isRight) ?? null
  )
}

function valueOf(data: object, name: string): JsonValue | undefined {
  return Object.hasOwn(data, name) ? (data as JsonObject)[name] : undefined
}

function isText(value: JsonValue | undefined): value is string {
  return typeof value === 'string'
}

function isNumber(value: JsonValue | undefined): value is number {
  return typeof value === 'number' && Number.isFinite(value)
}

function isBoolean(value: JsonValue | undefined): value is boolean {
  return typeof value === 'boolean'
}

function isList(value: JsonValue | undefined): value is JsonValue[] {
  return Array.isArray(value)
}

function isPresent(value: JsonValue | undefined): value is NonNullable<JsonValue> {
  return value !== undefined && value !== null
}

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether the field was too large and is only in the event's body. */
export function isOmitted<T extends EventType>(event: LogEvent<T>, field: Field<T>): boolean {
  const names = namesOf(event.type, field)
  return event.body?.omitted.some((name) => names.includes(name)) ?? false
}

/**
 * Reads a text whose beginning is in one field and whose full version may be in another. If the full text was omitted,
 * returns the beginning and, as `rest`, the sequence number of the event whose body has the full text.
 */
export function longText<T extends EventType>(
  event: LogEvent<T>,
  field: Field<T, string>,
  fullField: Field<T, string>,
): { text: string; rest: number | null } {
  const data = event.data as unknown as JsonObject
  const complete = text(data, fullField)
  if (complete !== null) return { text: complete, rest: null }
  const names = [field, fullField].flatMap((name) => namesOf(event.type, name))
  const isOmitted = event.body?.omitted.some((name) => names.includes(name)) ?? false
  return { text: text(data, field) ?? '', rest: isOmitted ? event.seq : null }
}

/** Deep equality. The order of object fields does not matter. */
export function isSame(left: JsonValue | undefined, right: JsonValue | undefined): boolean {
  if (left === right) return true
  if (Array.isArray(left)) {
    return (
      Array.isArray(right) && left.length === right.length && left.every((value, index) => isSame(value, right[index]))
    )
  }
  if (!isObject(left) || !isObject(right)) return false
  const fields = Object.keys(left)
  if (fields.length !== Object.keys(right).length) return false
  return fields.every((field) => field in right && isSame(left[field], right[field]))
}
