import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../api/contract'
import { dataOf, logEvent } from './event'
import { flag, isOmitted, json, number, someText, text } from './read'

describe('the data of an event', () => {
  it('reading a field that the payload does not have does not compile', () => {
    const data = dataOf('agent.tool_use', { tool: 'Bash', turn: 3 })
    expect(text(data, 'tool')).toBe('Bash')
    expect(number(data, 'turn')).toBe(3)
    // @ts-expect-error: no payload has this field.
    expect(text(data, 'tol')).toBeNull()
    // @ts-expect-error: a field of another event.
    expect(text(data, 'diff_preview')).toBeNull()
    // @ts-expect-error: the field is a number.
    expect(text(data, 'turn')).toBeNull()
  })

  it('each of several event types must have the field', () => {
    const data = dataOf<'agent.tool_use' | 'agent.file_edited'>('agent.tool_use', { tool: 'Bash', turn: 3 })
    expect(number(data, 'turn')).toBe(3)
    // @ts-expect-error: agent.file_edited has no such field.
    expect(text(data, 'tool')).toBe('Bash')
  })

  it('a field that only some event types have is read with these types, each of which must have it', () => {
    const data = dataOf<'agent.tool_use' | 'agent.file_edited'>('agent.tool_use', { tool: 'Bash' })
    expect(someText<'agent.tool_use'>(data, 'tool')).toBe('Bash')
    expect(someText<'agent.tool_use' | 'agent.tool_completed'>(data, 'tool')).toBe('Bash')
    // @ts-expect-error: agent.file_edited has no such field.
    expect(someText<'agent.tool_use' | 'agent.file_edited'>(data, 'tool')).toBe('Bash')
    // @ts-expect-error: the types are not named, and not every event has the field.
    expect(someText(data, 'tool')).toBe('Bash')
  })

  it('the fields that the worker adds to every event can be read', () => {
    const data = dataOf('agent.tool_use', { task_id: 't-1', sandbox_id: 's-1' })
    expect([text(data, 'task_id'), text(data, 'sandbox_id')]).toEqual(['t-1', 's-1'])
    // @ts-expect-error: an event of the plane.
    expect(text(dataOf('sandbox.completing', { agent_id: 'a' }), 'agent_id')).toBe('a')
  })

  it('a value of another type reads as missing', () => {
    const data = dataOf('agent.tool_completed', { tool: 7, is_error: 'yes', duration_ms: '12', tool_response: [1] })
    expect([text(data, 'tool'), flag(data, 'is_error'), number(data, 'duration_ms')]).toEqual([null, false, null])
    expect(json(data, 'tool_response')).toEqual([1])
  })

  it('names of OmoiOS and of older versions are read', () => {
    const call = dataOf('agent.tool_use', { tool_name: 'Bash', tool_id: 'a', input: { command: 'ls' } })
    expect([text(call, 'tool'), text(call, 'tool_use_id')]).toEqual(['Bash', 'a'])
    expect(json(call, 'tool_input')).toEqual({ command: 'ls' })
    const result = dataOf('agent.tool_result', { tool_id: 'a', content: 'done', full_response: 'all done' })
    expect([text(result, 'result'), text(result, 'full_result')]).toEqual(['done', 'all done'])
    const edit = dataOf('agent.file_edited', { path: 'a.ts' })
    expect(text(edit, 'file_path')).toBe('a.ts')
  })

  it('the current name wins over an older one, unless it is null', () => {
    expect(json(dataOf('agent.tool_use', { tool_input: 1, input: 2 }), 'tool_input')).toBe(1)
    expect(json(dataOf('agent.tool_use', { tool_input: null, input: 2 }), 'tool_input')).toBe(2)
  })

  it('of two names for a field, the first with a value of the right type counts', () => {
    for (const [raw, expected] of [
      [{ error: 'a', error_message: 'b' }, 'a'],
      [{ error_message: 'b', error: '' }, ''],
      [{ error: null, error_message: 'b' }, 'b'],
      [{ error_message: 'b', error: ['a'] }, 'b'],
      [{ error: 'a', error_message: ['b'] }, 'a'],
      [{ error: ['a'], error_message: 7 }, null],
    ] as const) {
      expect(text(dataOf('agent.failed', raw as unknown as JsonObject), 'error')).toBe(expected)
    }
    expect(number(dataOf('agent.turn_completed', { turns: 0, num_turns: 5 }), 'turns')).toBe(0)
    expect(number(dataOf('agent.turn_completed', { turns: '3', num_turns: 5 }), 'turns')).toBe(5)
  })

  it('an omitted field is known by its older name', () => {
    const body = { size_bytes: 9, omitted: ['full_response'] }
    const fields = { seq: 1, id: 'e', source: 'agent', at: '', body, raw: {} } as const
    const event = logEvent({ ...fields, type: 'agent.tool_completed' })
    expect(event.type === 'agent.tool_completed' && isOmitted(event, 'full_result')).toBe(true)
  })

  it('the data as it was sent is kept for any type', () => {
    fc.assert(
      fc.property(fc.string(), fc.object(), (type, object) => {
        const raw = object as JsonObject
        const sent = JSON.stringify(raw)
        const event = logEvent({ seq: 1, id: 'e', type, raw, source: 'agent', at: '', body: null })
        expect(event.raw).toBe(raw)
        expect(JSON.stringify(raw)).toBe(sent)
      }),
    )
  })
})
