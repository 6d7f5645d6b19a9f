import type { JsonObject, JsonValue } from '../api/contract'
import type { LogEvent } from './event'

// Event data comes from workers of any version and vendor. These functions never throw; unexpected data reads as `null`.

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

/** The first of these fields that holds a non-blank string. */
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

/** The id of the tool call an event belongs to, under the field name of any worker. */
export function toolUseId(data: JsonObject): string | null {
  return firstText(data, 'tool_use_id', 'tool_id')
}

/** Whether one of these fields was too large and is only in the event's body. */
export function isOmitted(event: LogEvent, ...fields: string[]): boolean {
  return event.body?.omitted.some((name) => fields.includes(name)) ?? false
}

/**
 * Reads a text whose beginning is in one field and whose full version may be in another. If the full text was omitted,
 * returns the beginning and, as `rest`, the sequence number of the event whose body has the full text.
 */
export function longText(event: LogEvent, field: string, fullField: string): { text: string; rest: number | null } {
  const complete = text(event.data, fullField)
  if (complete !== null) return { text: complete, rest: null }
  return { text: text(event.data, field) ?? '', rest: isOmitted(event, field, fullField) ? event.seq : null }
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
