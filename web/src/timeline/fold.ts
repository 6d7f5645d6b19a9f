import type { KnownEventType } from '../api/contract'
import { base, RowsBuilder, emptyFoldState, type FoldState, type RowPath } from './rows-builder'
import type { EventType, ForeignEventType, LogEvent } from './event'
import { hasTrait, isKnown } from './event-traits'
import { iteration } from './iterations'
import * as lines from './lines'
import * as messages from './messages'
import { plan } from './plans'
import { closePreviews, preview } from './previews'
import { firstText, flag, isFalse, longText, number, text } from './read'
import type { Row } from './rows'
import { systemMessage } from './system-messages'
import * as tools from './tools'

/** The folded form of the loaded log. */
export interface Timeline {
  readonly rows: readonly Row[]
  /** Sequence number of the newest folded event. */
  readonly last: number
  /** State for folding further events. */
  readonly foldState: FoldState
}

export const empty: Timeline = { rows: [], last: 0, foldState: emptyFoldState }

/**
 * Adds events, which must ascend; events that it contains already are ignored. The given timeline is not modified.
 * Unchanged rows are reused, so the same object means the same content.
 */
export function extend(timeline: Timeline, events: readonly LogEvent[]): Timeline {
  const { last } = timeline
  const added = events.filter((event) => event.seq > last)
  return added.length === 0 ? timeline : grow(timeline, added, () => undefined)
}

/** Folds events in any order, with or without duplicates. */
export function fold(events: readonly LogEvent[]): Timeline {
  return extend(empty, inOrder(events))
}

/** Maps each event to the key of its row; `null` for events that are not shown. */
export function rowsOfEvents(events: readonly LogEvent[]): Map<number, string | null> {
  const keys = new Map<number, string | null>()
  let merged = new Map<string, string>()
  grow(empty, inOrder(events), (event, path, builder) => {
    keys.set(event.seq, path === null ? null : builder.at(path).key)
    merged = builder.merged
  })
  for (const [seq, key] of keys) {
    let current = key
    while (current !== null && merged.has(current)) current = merged.get(current) ?? null
    keys.set(seq, current)
  }
  return keys
}

type Observer = (event: LogEvent, path: RowPath | null, builder: RowsBuilder) => void

function grow(timeline: Timeline, events: readonly LogEvent[], onEvent: Observer): Timeline {
  const builder = new RowsBuilder(timeline.rows, timeline.foldState)
  let { last } = timeline
  for (const event of events) {
    if (event.seq <= last) continue
    if (last === 0) builder.fromStart = event.seq === 1
    last = event.seq
    const handler = handlerOf(event.type)
    if (hasTrait(event.type, 'ends_sandbox')) closePreviews(builder, event)
    onEvent(event, handler(builder, event), builder)
  }
  return { rows: builder.rows, last, foldState: builder.foldState() }
}

function inOrder(events: readonly LogEvent[]): LogEvent[] {
  return [...events].sort((left, right) => left.seq - right.seq)
}

/** Folds one event and returns the path of its row; `null` if it is not shown. */
type Handler<T extends EventType = EventType> = (builder: RowsBuilder, event: LogEvent<T>) => RowPath | null

/** Every event type of the control plane and the worker. A new type does not compile until it has a handler here. */
const known: { readonly [T in KnownEventType]: Handler<T> } = {
  'sandbox.pending': lines.provisioning,
  'sandbox.preparing': lines.provisioning,
  'sandbox.creating': lines.provisioning,
  'sandbox.uploading': lines.provisioning,
  'sandbox.starting': lines.provisioning,
  'sandbox.spawned': lines.provisioning,
  'sandbox.running': lines.provisioning,
  'sandbox.retrying': lines.provisioning,
  'sandbox.token_rotated': lines.tokenRotated,
  'sandbox.completing': lines.closing,
  'sandbox.completed': lines.closing,
  'sandbox.released': lines.closing,
  'sandbox.failed': lines.failed,
  'sandbox.terminated': lines.terminated,
  'sandbox.terminated_idle': lines.terminated,
  'task.created': lines.entityEvent,
  'task.ready': lines.entityEvent,
  'task.claimed': lines.entityEvent,
  'task.assigned': lines.entityEvent,
  'task.started': lines.entityEvent,
  'task.branch_created': lines.entityEvent,
  'task.completing': lines.entityEvent,
  'task.pull_request_opened': lines.entityEvent,
  'task.merged': lines.entityEvent,
  'task.pull_request_closed': lines.entityEvent,
  'task.feedback_received': lines.entityEvent,
  'task.feedback_answered': lines.entityEvent,
  'task.feedback_left': lines.entityEvent,
  'task.feedback_requested': lines.entityEvent,
  'task.merge_conflict': lines.entityEvent,
  'task.completed': lines.entityEvent,
  'task.failed': lines.entityEvent,
  'task.retrying': lines.entityEvent,
  'task.cancelled': lines.entityEvent,
  'task.validating': lines.entityEvent,
  'task.needs_revision': lines.entityEvent,
  'task.updated': lines.entityEvent,
  'task.dependencies_changed': lines.entityEvent,
  'ticket.created': lines.entityEvent,
  'ticket.transitioned': lines.entityEvent,
  'ticket.approved': lines.entityEvent,
  'ticket.rejected': lines.entityEvent,
  'ticket.timed_out': lines.entityEvent,
  'ticket.blocked': lines.entityEvent,
  'ticket.unblocked': lines.entityEvent,
  'ticket.merge_started': lines.entityEvent,
  'ticket.merge_ordered': lines.entityEvent,
  'ticket.merge_progress': lines.entityEvent,
  'ticket.merge_conflict': lines.entityEvent,
  'ticket.merge_ended': lines.entityEvent,
  'message.queued': messages.queued,
  'message.fetched': messages.receipt,
  'message.undeliverable': messages.receipt,
  'message.delivered': messages.receipt,
  'message.started': messages.receipt,
  'message.completed': messages.receipt,
  'message.cancelled': messages.receipt,
  'workspace.cloning': lines.workspace,
  'workspace.ready': lines.workspace,
  'workspace.failed': lines.failed,
  'workspace.pushed': lines.pushed,
  'workspace.push_rejected': lines.pushRejected,
  'workspace.push_failed': lines.pushFailed,
  'workspace.kept': lines.kept,
  'workspace.keep_failed': lines.keepFailed,
  'workspace.changes_left_out': lines.changesLeftOut,
  'workspace.snapshots_off': lines.snapshotsOff,
  'network.denied': lines.networkDenied,
  'agent.started': lines.started,
  'agent.system_message': systemMessage,
  'agent.user_message': messages.userMessage,
  'agent.message': agentText,
  'agent.thinking': agentThinking,
  'agent.assistant_message': (builder, event) =>
    firstText(event.data, 'content') === null ? null : agentText(builder, event),
  'agent.tool_use': tools.called,
  'agent.tool_completed': tools.ended,
  'agent.tool_result': tools.resultReceived,
  'agent.user_tool_result': tools.resultReceived,
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
  'agent.heartbeat': hidden,
  'agent.partial': hidden,
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
  'worker.isolation': lines.isolation,
  'worker.outbox_full': lines.workerProblem,
  'worker.event_refused': lines.workerProblem,
  'worker.receipt_refused': lines.workerProblem,
  'worker.transcript_refused': lines.workerProblem,
  'worker.transcript_behind': lines.workerProblem,
  'worker.spool_damaged': lines.workerProblem,
  'worker.transcript_lost': lines.workerProblem,
}

const foreign: { readonly [T in ForeignEventType]: Handler<T> } = {
  'agent.turn_complete': turn,
}

/** The handler is given only events of its type. */
function handlerOf(type: EventType): Handler {
  if (isKnown(type)) return known[type] as Handler
  return isForeign(type) ? (foreign[type] as Handler) : unknown
}

function isForeign(type: EventType): type is ForeignEventType {
  return Object.hasOwn(foreign, type)
}

function unknown(builder: RowsBuilder, event: LogEvent): RowPath | null {
  return /heartbeat/i.test(event.type) ? null : other(builder, event)
}

function hidden(): null {
  return null
}

function agentText(builder: RowsBuilder, event: LogEvent<'agent.message' | 'agent.assistant_message'>): RowPath {
  const { text, rest } = longText(event, 'content', 'full_content')
  return builder.add({ kind: 'text', text, rest, ...base(event) })
}

function agentThinking(builder: RowsBuilder, event: LogEvent<'agent.thinking'>): RowPath {
  const { text, rest } = longText(event, 'content', 'full_content')
  return builder.add({ kind: 'thinking', text, rest, ...base(event) })
}

function turn(builder: RowsBuilder, event: LogEvent<'agent.turn_completed' | ForeignEventType>): RowPath {
  tools.interruptRunning(builder, event, 'turn')
  const { data } = event
  return builder.add({
    kind: 'turn',
    success: !isFalse(data, 'success') && !flag(data, 'is_error'),
    interrupted: flag(data, 'interrupted') || text(data, 'stop_reason') === 'cancelled',
    costUsd: number(data, 'cost_usd') ?? number(data, 'total_cost_usd'),
    inputTokens: number(data, 'input_tokens'),
    outputTokens: number(data, 'output_tokens'),
    durationMs: number(data, 'duration_ms'),
    detail: firstText(data, 'error'),
    ...base(event),
  })
}

function other(builder: RowsBuilder, event: LogEvent): RowPath {
  const unparsed = event.type === 'agent.unparsed'
  const rest = event.body === null ? null : event.seq
  return builder.add({ kind: 'other', eventType: event.type, data: event.raw, unparsed, rest, ...base(event) })
}
