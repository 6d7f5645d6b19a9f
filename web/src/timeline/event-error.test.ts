import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../api/contract'
import { dataOf } from './event'
import { errorOf, type FailureEvent } from './event-error'
import { eventOf, log } from './fixtures'
import { firstText } from './read'

const errors = (type: string, data: JsonObject) => log(eventOf(type, data)).map(errorOf)

describe('the error of an event', () => {
  it.each<[string, JsonObject, string]>([
    ['agent.stream_error', { error: 'exited', reason: 'other' }, 'exited'],
    ['sandbox.failed', { message: 'No worker', reason: 'dead' }, 'No worker'],
    ['sandbox.failed', { reason: 'dead' }, 'dead'],
    ['task.failed', { error_message: 'cancelled by a caller', reason: 'cancelled' }, 'cancelled by a caller'],
    ['agent.failed', { error_message: 'from another worker' }, 'from another worker'],
    ['iteration.failed', { error_message: 'from another worker' }, 'from another worker'],
    ['agent.error', { message: 'from another worker' }, 'from another worker'],
    ['preview.failed', {}, 'No reason given.'],
    ['agent.completed', { success: false, stop_reason: 'budget' }, 'budget'],
    ['agent.tool_completed', { tool: 'Bash', is_error: true, tool_response: '\nnot found\n' }, 'Bash: not found'],
  ])('of type %s with %j is found', (type, data, expected) => {
    expect(errors(type, data)).toEqual([expected])
  })

  it('is absent if nothing failed', () => {
    expect(errors('agent.completed', { success: true })).toEqual([null])
    expect(errors('agent.tool_completed', { tool: 'Bash', is_error: false })).toEqual([null])
    expect(errors('agent.of_a_newer_worker', { error: 'x' })).toEqual([null])
  })

  it('does not compile with a type whose payload lacks the field', () => {
    const data = dataOf<FailureEvent['type'] | 'agent.shutdown'>('agent.shutdown', { error: 'x' })
    // @ts-expect-error: agent.shutdown has no error.
    expect(firstText(data, 'error')).toBe('x')
  })
})
