import { describe, expect, it } from 'vitest'
import { eventType } from './event'
import { eventTypesWith, hasTrait } from './event-traits'

/** A socket accepts this many event types (docs/protocol.md). */
const MAX_EVENT_TYPES = 40

describe('event traits', () => {
  it.each(['changes_card', 'changes_progress'] as const)('one socket can subscribe to all events with %s', (trait) => {
    expect(eventTypesWith(trait).length).toBeLessThanOrEqual(MAX_EVENT_TYPES)
  })

  it('comparing with a name that is not in the catalogue does not compile', () => {
    const type = eventType('sandbox.vanished')
    // @ts-expect-error `tsc` fails here if it accepts the name.
    expect(type === 'sandbox.vanished').toBe(true)
  })

  it('an event of another worker has none', () => {
    expect(hasTrait(eventType('sandbox.vanished'), 'ends_sandbox')).toBe(false)
    expect(hasTrait(eventType('toString'), 'ends_sandbox')).toBe(false)
  })
})
