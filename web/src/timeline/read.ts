import type { JsonObject, JsonValue } from '../api/contract'
import type { LogEvent } from './event'

// Event data comes from workers of any age and origin. These never throw: what is not as expected is `null`.

export function text(data: JsonObject, field: string): string | null {
  const value = data[field]
  return typeof value === 'string' ? value : null
}

export function number(data: JsonObject, field: string): number | null {
  const value = data[field]
  return typeof value === 'number' && Number.isFinite(value) ? value : null
}

export function flag(data: JsonObject, field: string): boolean {
  return data[field] === true
}

export function object(data: JsonObject, field: string): JsonObject | null {
  const value = data[field]
  return isObject(value) ? value : null
}

export function list(data: JsonObject, field: string): JsonValue[] {
  const value = data[field]
  return Array.isArray(value) ? value : []
}

/** The first of these fields that holds a text with something in it. */
export function firstText(data: JsonObject, ...fields: string[]): string | null {
  for (const field of fields) {
    const value = data[field]
    if (typeof value === 'string' && /\S/.test(value)) return value
  }
  return null
}

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Which tool an event is about, in the words of any worker. */
export function toolUseId(data: JsonObject): string | null {
  return firstText(data, 'tool_use_id', 'tool_id')
}

/** Whether this field did not fit and is only in the event's body. */
export function isOmitted(event: LogEvent, ...fields: string[]): boolean {
  return event.body?.omitted.some((name) => fields.includes(name)) ?? false
}

/**
 * A text that may be there twice: its beginning in one field, all of it in another. All of it if it is here; otherwise
 * its beginning, and the number of the event whose body has the rest.
 */
export function longText(event: LogEvent, field: string, fullField: string): { text: string; rest: number | null } {
  const whole = text(event.data, fullField)
  if (whole !== null) return { text: whole, rest: null }
  return { text: text(event.data, field) ?? '', rest: isOmitted(event, field, fullField) ? event.seq : null }
}

/** Whether two values say the same. The order of an object's fields does not matter. */
export function isSame(one: JsonValue | undefined, other: JsonValue | undefined): boolean {
  if (one === other) return true
  if (Array.isArray(one)) {
    return Array.isArray(other) && one.length === other.length && one.every((value, index) => isSame(value, other[index]))
  }
  if (!isObject(one) || !isObject(other)) return false
  const fields = Object.keys(one)
  if (fields.length !== Object.keys(other).length) return false
  return fields.every((field) => field in other && isSame(one[field], other[field]))
}
