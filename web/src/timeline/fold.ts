import type { KnownEventType } from '../api/contract'
import { base, blank, Draft, type Memory, type Place } from './draft'
import type { LogEvent } from './event'
import { iteration } from './iterations'
import * as lines from './lines'
import * as messages from './messages'
import { plan } from './plans'
import { closePreviews, endsPreviews, preview } from './previews'
import { firstText, flag, longText, number, text } from './read'
import type { Row } from './rows'
import * as tools from './tools'

/** A log, folded as far as it is known. */
export interface Timeline {
  readonly rows: readonly Row[]
  /** Of the newest event that is in it. */
  readonly last: number
  /** What it takes to go on from here. */
  readonly memory: Memory
}

export const empty: Timeline = { rows: [], last: 0, memory: blank }

/**
 * The timeline with these events, which ascend; what it has already is ignored. The timeline itself stays as it is, and
 * so do all rows that nothing happened to: the same object means the same content.
 */
export function extend(timeline: Timeline, events: readonly LogEvent[]): Timeline {
  const { last } = timeline
  const fresh = events.filter((event) => event.seq > last)
  return fresh.length === 0 ? timeline : grow(timeline, fresh, () => undefined)
}

/** The timeline of these events, in whichever order they are and however often each is there. */
export function fold(events: readonly LogEvent[]): Timeline {
  return extend(empty, inOrder(events))
}

/** In which row each event ended up, by its key; `null` for what is not shown. */
export function rowsOfEvents(events: readonly LogEvent[]): Map<number, string | null> {
  const keys = new Map<number, string | null>()
  let merged = new Map<string, string>()
  grow(empty, inOrder(events), (event, place, draft) => {
    keys.set(event.seq, place === null ? null : draft.at(place).key)
    merged = draft.merged
  })
  for (const [seq, key] of keys) {
    let now = key
    while (now !== null && merged.has(now)) now = merged.get(now) ?? null
    keys.set(seq, now)
  }
  return keys
}

type Witness = (event: LogEvent, place: Place | null, draft: Draft) => void

function grow(timeline: Timeline, events: readonly LogEvent[], witness: Witness): Timeline {
  const draft = new Draft(timeline.rows, timeline.memory)
  let { last } = timeline
  for (const event of events) {
    if (event.seq <= last) continue
    if (last === 0) draft.fromStart = event.seq === 1
    last = event.seq
    const handle = isKnown(event.type) ? known[event.type] : (foreign[event.type] ?? unknown)
    if (endsPreviews(event)) closePreviews(draft, event)
    witness(event, handle(draft, event), draft)
  }
  return { rows: draft.rows, last, memory: draft.memory() }
}

function inOrder(events: readonly LogEvent[]): LogEvent[] {
  return [...events].sort((one, other) => one.seq - other.seq)
}

/** Folds one event in, and says where it is to be seen; `null` for nowhere. */
type Handler = (draft: Draft, event: LogEvent) => Place | null

/** Every type that the plane and its worker tell. A new one does not compile until somebody says how it is shown. */
const known: Readonly<Record<KnownEventType, Handler>> = {
  'sandbox.pending': lines.spawning,
  'sandbox.preparing': lines.spawning,
  'sandbox.creating': lines.spawning,
  'sandbox.uploading': lines.spawning,
  'sandbox.starting': lines.spawning,
  'sandbox.spawned': lines.spawning,
  'sandbox.running': lines.spawning,
  'sandbox.retrying': lines.spawning,
  'sandbox.completing': lines.closing,
  'sandbox.completed': lines.closing,
  'sandbox.released': lines.closing,
  'sandbox.failed': lines.failed,
  'sandbox.terminated': lines.terminated,
  'sandbox.terminated_idle': lines.terminated,
  'task.created': lines.turnOfEntity,
  'task.ready': lines.turnOfEntity,
  'task.claimed': lines.turnOfEntity,
  'task.assigned': lines.turnOfEntity,
  'task.started': lines.turnOfEntity,
  'task.completed': lines.turnOfEntity,
  'task.failed': lines.turnOfEntity,
  'task.retrying': lines.turnOfEntity,
  'task.cancelled': lines.turnOfEntity,
  'task.validating': lines.turnOfEntity,
  'task.needs_revision': lines.turnOfEntity,
  'task.updated': lines.turnOfEntity,
  'task.dependencies_changed': lines.turnOfEntity,
  'ticket.created': lines.turnOfEntity,
  'ticket.transitioned': lines.turnOfEntity,
  'ticket.approved': lines.turnOfEntity,
  'ticket.rejected': lines.turnOfEntity,
  'ticket.timed_out': lines.turnOfEntity,
  'ticket.blocked': lines.turnOfEntity,
  'ticket.unblocked': lines.turnOfEntity,
  'message.queued': messages.queued,
  'message.fetched': messages.receipt,
  'message.delivered': messages.receipt,
  'message.started': messages.receipt,
  'message.completed': messages.receipt,
  'message.cancelled': messages.receipt,
  'workspace.cloning': lines.workspace,
  'workspace.ready': lines.workspace,
  'workspace.failed': lines.failed,
  'workspace.changes_left_out': lines.changesLeftOut,
  'workspace.snapshots_off': lines.snapshotsOff,
  'agent.started': lines.started,
  'agent.system_message': lines.systemMessage,
  'agent.user_message': messages.heard,
  'agent.message': written,
  'agent.thinking': thought,
  'agent.assistant_message': (draft, event) => (firstText(event.data, 'content') === null ? null : written(draft, event)),
  'agent.tool_use': tools.called,
  'agent.tool_completed': tools.ended,
  'agent.tool_result': tools.answered,
  'agent.user_tool_result': tools.answered,
  'agent.subagent_invoked': tools.called,
  'agent.subagent_completed': tools.ended,
  'agent.skill_invoked': tools.called,
  'agent.skill_completed': tools.ended,
  'agent.file_edited': tools.edited,
  'agent.permission_decided': tools.decided,
  'agent.plan': plan,
  'agent.turn_completed': turn,
  'agent.message_injected': messages.injected,
  'agent.interrupted': lines.interrupted,
  'agent.completed': lines.completed,
  'agent.failed': lines.failed,
  'agent.waiting': lines.waiting,
  'agent.stream_error': lines.streamError,
  'agent.error': lines.agentError,
  'agent.unparsed': other,
  'agent.shutdown': lines.shutdown,
  'agent.heartbeat': never,
  'agent.partial': never,
  'continuous.started': iteration,
  'continuous.completed': iteration,
  'iteration.started': iteration,
  'iteration.completed': iteration,
  'iteration.failed': iteration,
  'iteration.completion_signal': iteration,
  'iteration.validation': iteration,
  'preview.starting': preview,
  'preview.ready': preview,
  'preview.failed': preview,
  'preview.stopped': preview,
  'worker.outbox_full': lines.workerTrouble,
  'worker.event_refused': lines.workerTrouble,
  'worker.receipt_refused': lines.workerTrouble,
  'worker.transcript_refused': lines.workerTrouble,
  'worker.transcript_behind': lines.workerTrouble,
  'worker.spool_damaged': lines.workerTrouble,
  'worker.transcript_lost': lines.workerTrouble,
}

/** What other workers say for the same things. */
const foreign: Readonly<Record<string, Handler | undefined>> = {
  'agent.turn_complete': turn,
}

function isKnown(type: string): type is KnownEventType {
  return Object.hasOwn(known, type)
}

function unknown(draft: Draft, event: LogEvent): Place | null {
  return /heartbeat/i.test(event.type) ? null : other(draft, event)
}

function never(): null {
  return null
}

function written(draft: Draft, event: LogEvent): Place {
  const { text, rest } = longText(event, 'content', 'full_content')
  return draft.add({ kind: 'text', text, rest, ...base(event) })
}

function thought(draft: Draft, event: LogEvent): Place {
  const { text, rest } = longText(event, 'content', 'full_content')
  return draft.add({ kind: 'thinking', text, rest, ...base(event) })
}

function turn(draft: Draft, event: LogEvent): Place {
  tools.cutOff(draft, event, 'turn')
  const { data } = event
  return draft.add({
    kind: 'turn',
    success: data['success'] !== false && !flag(data, 'is_error'),
    interrupted: flag(data, 'interrupted') || text(data, 'stop_reason') === 'cancelled',
    costUsd: number(data, 'cost_usd') ?? number(data, 'total_cost_usd'),
    inputTokens: number(data, 'input_tokens'),
    outputTokens: number(data, 'output_tokens'),
    durationMs: number(data, 'duration_ms'),
    detail: firstText(data, 'error'),
    ...base(event),
  })
}

function other(draft: Draft, event: LogEvent): Place {
  const unparsed = event.type === 'agent.unparsed'
  const rest = event.body === null ? null : event.seq
  return draft.add({ kind: 'other', eventType: event.type, data: event.data, unparsed, rest, ...base(event) })
}
