import { describe, expect, expectTypeOf, it } from 'vitest'
import type { KnownEventType, PayloadOf } from '../api/contract'
import { dataOf } from './event'
import { eventOf, log } from './fixtures'
import { parentOf, turnOf, type ConversationEventType, type TurnEventType } from './place'
import { someNumber, someText } from './read'

/** The event types whose payload has a field. */
type EventTypeWithField<Name extends string> = {
  [T in KnownEventType]: Name extends keyof PayloadOf<T> ? T : never
}[KnownEventType]

describe('the place of an event', () => {
  it('is checked for exactly the payloads that have it', () => {
    expectTypeOf<TurnEventType>().toEqualTypeOf<EventTypeWithField<'turn'>>()
    expectTypeOf<ConversationEventType>().toEqualTypeOf<EventTypeWithField<'parent_tool_use_id'>>()
  })

  it('does not compile with a type whose payload lacks the field', () => {
    const data = dataOf('agent.shutdown', { turn: 2, parent_tool_use_id: 'call' })
    // @ts-expect-error: agent.shutdown has no turn.
    expect(someNumber<TurnEventType | 'agent.shutdown'>(data, 'turn')).toBe(2)
    // @ts-expect-error: agent.shutdown belongs to no sub-agent.
    expect(someText<ConversationEventType | 'agent.shutdown'>(data, 'parent_tool_use_id')).toBe('call')
  })

  it('is read from events of any type', () => {
    const events = log(eventOf('agent.of_a_newer_worker', { turn: 3, parent_tool_use_id: 'call' }))
    expect(events.map(turnOf)).toEqual([3])
    expect(events.map(parentOf)).toEqual(['call'])
  })
})
