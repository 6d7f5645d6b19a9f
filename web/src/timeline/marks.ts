import type { LogEvent } from './event'
import { errorOf } from './event-error'
import { hasTrait } from './event-traits'
import { firstText } from './read'

/** A point of a run that a reader may want to jump to. */
export interface Mark {
  readonly seq: number
  readonly at: string
  readonly kind: 'error' | 'edit' | 'message' | 'turn' | 'tool'
}

export function marks(events: readonly LogEvent[]): Mark[] {
  return events.flatMap((event) => {
    const kind = kindOf(event)
    return kind === null ? [] : [{ seq: event.seq, at: event.at, kind }]
  })
}

function kindOf(event: LogEvent): Mark['kind'] | null {
  if (errorOf(event) !== null) return 'error'
  switch (event.type) {
    case 'agent.file_edited':
      return 'edit'
    case 'message.queued':
      return 'message'
    case 'agent.message_injected':
      // A message with an id was marked when it was sent.
      return firstText(event.data, 'message_id') === null ? 'message' : null
    case 'agent.turn_completed':
    case 'agent.turn_complete':
      return 'turn'
    default:
      return hasTrait(event.type, 'begins_call') ? 'tool' : null
  }
}
