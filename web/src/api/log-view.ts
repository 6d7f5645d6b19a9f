import type { LogEvent } from '../timeline/event'
import { empty, extend, fold, type Timeline } from '../timeline/fold'
import { advance, emptyRun, type Run } from '../timeline/run'
import type { Connection } from './live'
import type { PartialText } from './partial-text'

/** The loaded part of a sandbox's log and what is derived from it. Immutable: each change creates a new object. */
export interface LogView {
  /** Ascending, without gaps. */
  readonly events: readonly LogEvent[]
  readonly timeline: Timeline
  readonly run: Run
  /** Sequence numbers of the first and last loaded events; 0 if there are none. */
  readonly first: number
  readonly last: number
  readonly hasOlder: boolean
  readonly loadingOlder: boolean
  /** Why older events could not be loaded; cleared by the next attempt. */
  readonly olderError: unknown
  /** Everything since the first event is loaded. */
  readonly complete: boolean
  /** Progress of `loadAll`. */
  readonly progress: { readonly loaded: number; readonly of: number } | null
  /** Text that the agent is still generating. */
  readonly partial: PartialText | null
  readonly heartbeatAt: string | null
  readonly connection: Connection
  readonly detail: string | null
  /** `failed` only while there is nothing to show. */
  readonly state: 'loading' | 'ready' | 'failed'
  readonly error: unknown
}

export const emptyView: LogView = {
  events: [],
  timeline: empty,
  run: emptyRun,
  first: 0,
  last: 0,
  hasOlder: false,
  loadingOlder: false,
  olderError: null,
  complete: false,
  progress: null,
  partial: null,
  heartbeatAt: null,
  connection: 'connecting',
  detail: null,
  state: 'loading',
  error: null,
}

export function folded(events: readonly LogEvent[]) {
  return { ...bounds(events), events, timeline: fold(events), run: advance(emptyRun, events) }
}

/** Appends events that directly follow those of the view. */
export function extended(view: LogView, added: readonly LogEvent[]) {
  const events = view.events.concat(added)
  return { ...bounds(events), events, timeline: extend(view.timeline, added), run: advance(view.run, added) }
}

function bounds(events: readonly LogEvent[]) {
  const first = events[0]?.seq ?? 0
  return { first, last: events.at(-1)?.seq ?? 0, hasOlder: first > 1, complete: first <= 1 }
}
