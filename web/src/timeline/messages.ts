import { MESSAGE_STATES, MESSAGE_TYPES, type MessageState, type MessageType } from '../api/contract'
import { base, type RowsBuilder, type RowPath } from './rows-builder'
import type { LogEvent } from './event'
import { firstText, flag, isOmitted, number, object, someNumber, someText, text } from './read'
import type { MessageRow } from './rows'

// A message is one row, at the point where it was first sent. Receipts refer to its `message_id`. The worker reports the
// `message_uuid` under which it injects the message, and the agent echoes it with that uuid.
//
// Who wrote a message, and what, comes from `message.queued` only: that type is reserved for the control plane. The
// worker's `agent.message_injected` is a receipt. It could name any sender and any text.

type UserMessageEvent = LogEvent<'agent.user_message'>

type QueuedEvent = LogEvent<'message.queued'>

type ReceiptEvent = LogEvent<Exclude<`message.${MessageState}`, 'message.queued'>>

/** Receipts with a remark. */
type DetailEventType = Exclude<ReceiptEvent['type'], 'message.fetched'>

/** An event with the text of a message. */
type MessageEvent = LogEvent<'message.queued' | 'agent.message_injected' | 'agent.user_message'>

export function queued(builder: RowsBuilder, event: QueuedEvent): RowPath {
  const id = firstText(event.data, 'message_id')
  const known = id === null ? undefined : builder.paths.get(`message:${id}`)
  if (known !== undefined && queuedAgain(builder, event, known)) return known
  const path = builder.add({
    ...messageRow(event, id === null ? undefined : `message:${id}`),
    messageId: id,
    version: versionOf(event),
    receipts: [{ state: 'queued', at: event.at, detail: null }],
  })
  builder.undelivered = builder.remember(builder.undelivered, path)
  return path
}

/** Whether the event sends an earlier message again (`version` 2, 3, …) instead of a new one. */
export function isSentAgain(event: LogEvent): boolean {
  return event.type === 'message.queued' && versionOf(event) > 1
}

/** Shows the message as queued in the row that it has, with the receipts of its new version only. */
function queuedAgain(builder: RowsBuilder, event: QueuedEvent, path: RowPath): boolean {
  const row = builder.changeIf(path, 'message', event)
  if (row === null) return false
  const version = versionOf(event)
  if (version > row.version || row.receipts.length === 0) {
    row.version = version
    row.deliveries = null
    row.receipts = [{ state: 'queued', at: event.at, detail: null }]
    builder.undelivered = builder.remember(without(builder, builder.undelivered, path), path)
  }
  return true
}

function versionOf({ data }: QueuedEvent): number {
  return number(data, 'version') ?? 1
}

/** A delivery state such as `message.delivered`. */
export function receipt(builder: RowsBuilder, event: ReceiptEvent): RowPath {
  const state = stateOf(event.type)
  const id = firstText(event.data, 'message_id')
  const path = id === null ? undefined : builder.paths.get(`message:${id}`)
  const row = path === undefined ? null : builder.changeIf(path, 'message', event)
  if (path === undefined || row === null || state === null) return unknownReceipt(builder, event)
  // A message is redelivered until it is confirmed or undeliverable; the first time counts.
  if (!row.receipts.some((each) => each.state === state)) {
    row.receipts = [...row.receipts, { state, at: event.at, detail: someText<DetailEventType>(event.data, 'detail') }]
  }
  row.deliveries =
    someNumber<'message.undeliverable'>(event.data, 'deliveries') ??
    someNumber<'message.fetched'>(event.data, 'delivery') ??
    row.deliveries
  if (state === 'cancelled') builder.undelivered = without(builder, builder.undelivered, path)
  return path
}

/** The worker injects a message into the agent's conversation. */
export function injected(builder: RowsBuilder, event: LogEvent<'agent.message_injected'>): RowPath {
  const { data } = event
  const id = firstText(data, 'message_id')
  const uuid = firstText(data, 'message_uuid')
  const content = text(data, 'content')
  const named = id === null ? undefined : builder.paths.get(`message:${id}`)
  const known = named ?? (id === null ? withText(builder, builder.undelivered, content) : undefined)
  // The row of an unknown message has no name of its own, so that a message with this id still gets its own row.
  const path = known ?? builder.add({ ...messageRow(event, undefined), sender: null, unverified: true })
  builder.change(path, event)
  builder.undelivered = without(builder, builder.undelivered, path)
  if (uuid !== null) builder.paths.set(`echo:${uuid}`, path)
  else builder.awaitingEcho = builder.remember(builder.awaitingEcho, path)
  return path
}

/** A user message in the agent's conversation: an echoed message, the task prompt, or a generated message. */
export function userMessage(builder: RowsBuilder, event: UserMessageEvent): RowPath {
  const { data } = event
  const uuid = firstText(data, 'message_uuid')
  const content = text(data, 'content')
  const known = echoed(builder, event, uuid, content)
  if (known !== null) {
    builder.change(known, event)
    builder.awaitingEcho = without(builder, builder.awaitingEcho, known)
    return known
  }
  const isTask = isTaskPrompt(builder, event)
  const key = isTask ? 'task' : uuid === null ? undefined : `uuid:${uuid}`
  const row = messageRow(event, key)
  // A message without a sender comes from the worker, for example after an interruption.
  return builder.add({ ...row, messageType: isTask ? 'task' : 'system', synthetic: !isTask, sender: null })
}

function echoed(
  builder: RowsBuilder,
  event: UserMessageEvent,
  uuid: string | null,
  content: string | null,
): RowPath | null {
  const parent = base(event).parent
  if (parent !== null) return promptOf(builder, builder.paths.get(`tool:${parent}`), content)
  const named = uuid === null ? undefined : builder.paths.get(`echo:${uuid}`)
  if (named !== undefined) return named
  if (uuid !== null || flag(event.data, 'synthetic')) return null
  const unnamed = withText(builder, builder.awaitingEcho, content)
  if (unnamed !== undefined) return unnamed
  // Some workers do not report which sub-agent a prompt belongs to.
  for (const path of builder.running.values()) {
    const prompted = promptOf(builder, path, content)
    if (prompted !== null) return prompted
  }
  return null
}

/** The sub-agent at this path, if the content is its prompt, which its row shows already. */
function promptOf(builder: RowsBuilder, path: RowPath | undefined, content: string | null): RowPath | null {
  if (path === undefined || content === null) return null
  const row = builder.at(path)
  return row.kind === 'subagent' && row.prompt.trim() === content.trim() ? path : null
}

/** Whether this is the task prompt: the first message without a sender, if the log is loaded from its start. */
function isTaskPrompt(builder: RowsBuilder, event: UserMessageEvent): boolean {
  const isPlain = !flag(event.data, 'synthetic') && base(event).parent === null
  return isPlain && builder.fromStart && builder.paths.get('task') === undefined
}

function messageRow(event: MessageEvent, key: string | undefined): MessageRow {
  const { data } = event
  return {
    kind: 'message',
    text: text(data, 'content') ?? '',
    messageId: null,
    messageType: typeOf(event),
    sender: senderOf(event),
    synthetic: false,
    unverified: false,
    rest: isOmitted(event, 'content') ? event.seq : null,
    version: 1,
    deliveries: null,
    receipts: [],
    ...base(event, key),
  }
}

const RECEIPT_LABELS: Readonly<Record<MessageState, string>> = {
  queued: 'sent',
  fetched: 'fetched',
  undeliverable: 'undeliverable',
  delivered: 'delivered',
  started: 'started',
  completed: 'completed',
  cancelled: 'cancelled',
}

/** A receipt of a message that was sent before the loaded part of the log. */
function unknownReceipt(builder: RowsBuilder, event: ReceiptEvent): RowPath {
  const state = stateOf(event.type) ?? 'queued'
  return builder.add({
    ...base(event),
    kind: 'line',
    tone: 'quiet',
    text: `Earlier message: ${RECEIPT_LABELS[state]}`,
    detail: someText<DetailEventType>(event.data, 'detail'),
    eventType: event.type,
  })
}

function withText(builder: RowsBuilder, paths: readonly RowPath[], content: string | null): RowPath | undefined {
  return paths.find((path) => {
    const row = builder.at(path)
    return row.kind === 'message' && row.text === content
  })
}

function without(builder: RowsBuilder, paths: readonly RowPath[], removed: RowPath): readonly RowPath[] {
  const { key } = builder.at(removed)
  return paths.length === 0 ? paths : paths.filter((path) => builder.at(path).key !== key)
}

function stateOf(eventType: string): MessageState | null {
  return MESSAGE_STATES.find((state) => eventType === `message.${state}`) ?? null
}

function typeOf({ data }: MessageEvent): MessageType {
  const value = someText<'message.queued' | 'agent.message_injected'>(data, 'message_type')
  return value === 'guardian_nudge' ? 'guidance' : (MESSAGE_TYPES.find((type) => type === value) ?? 'user_message')
}

function senderOf(event: MessageEvent): MessageRow['sender'] {
  const sender = event.type === 'message.queued' ? object(event.data, 'sender') : null
  if (sender === null) return null
  const [kind, id] = [firstText(sender, 'kind'), firstText(sender, 'id')]
  return kind === null && id === null ? null : { kind: kind ?? 'user', id }
}
