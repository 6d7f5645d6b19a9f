import { MESSAGE_STATES, MESSAGE_TYPES, type JsonObject, type MessageState, type MessageType } from '../api/contract'
import { base, type Draft, type Place } from './draft'
import type { LogEvent } from './event'
import { firstText, flag, isOmitted, object, text } from './read'
import type { MessageRow } from './rows'

// A message is one row, at the point where it was sent. Receipts refer to its `message_id`. The worker reports the
// `message_uuid` under which it injects the message, and the agent echoes it with that uuid.

export function queued(draft: Draft, event: LogEvent): Place {
  const id = firstText(event.data, 'message_id')
  const place = draft.add({
    ...messageRow(event, id === null ? undefined : `message:${id}`),
    messageId: id,
    receipts: [{ state: 'queued', at: event.at, detail: null }],
  })
  draft.undelivered = draft.remember(draft.undelivered, place)
  return place
}

/** A delivery state such as `message.delivered`. */
export function receipt(draft: Draft, event: LogEvent): Place {
  const state = stateOf(event.type)
  const id = firstText(event.data, 'message_id')
  const place = id === null ? undefined : draft.places.get(`message:${id}`)
  const row = place === undefined ? null : draft.changeIf(place, 'message', event)
  if (place === undefined || row === null || state === null) return unknownReceipt(draft, event)
  // A message is redelivered until it is confirmed; the first time counts.
  if (!row.receipts.some((each) => each.state === state)) {
    row.receipts = [...row.receipts, { state, at: event.at, detail: firstText(event.data, 'detail') }]
  }
  if (state === 'cancelled') draft.undelivered = without(draft, draft.undelivered, place)
  return place
}

/** The worker injects a message into the agent's conversation. */
export function injected(draft: Draft, event: LogEvent): Place {
  const { data } = event
  const id = firstText(data, 'message_id')
  const uuid = firstText(data, 'message_uuid')
  const content = text(data, 'content')
  const named = id === null ? undefined : draft.places.get(`message:${id}`)
  const known = named ?? (id === null ? withText(draft, draft.undelivered, content) : undefined)
  const place = known ?? draft.add({ ...messageRow(event, id === null ? undefined : `message:${id}`), messageId: id })
  const row = draft.changeIf(place, 'message', event)
  if (row?.text === '' && content !== null) row.text = content
  draft.undelivered = without(draft, draft.undelivered, place)
  if (uuid !== null) draft.places.set(`echo:${uuid}`, place)
  else draft.awaitingEcho = draft.remember(draft.awaitingEcho, place)
  return place
}

/** A user message in the agent's conversation: an echoed message, the task prompt, or a generated message. */
export function userMessage(draft: Draft, event: LogEvent): Place {
  const { data } = event
  const uuid = firstText(data, 'message_uuid')
  const content = text(data, 'content')
  const known = echoed(draft, event, uuid, content)
  if (known !== null) {
    draft.change(known, event)
    draft.awaitingEcho = without(draft, draft.awaitingEcho, known)
    return known
  }
  const isTask = isTaskPrompt(draft, event)
  const key = isTask ? 'task' : uuid === null ? undefined : `uuid:${uuid}`
  const row = messageRow(event, key)
  // A message without a sender comes from the worker, for example after an interruption.
  return draft.add({ ...row, messageType: isTask ? 'task' : 'system', synthetic: !isTask, sender: null })
}

function echoed(draft: Draft, event: LogEvent, uuid: string | null, content: string | null): Place | null {
  const parent = base(event).parent
  if (parent !== null) return promptOf(draft, draft.places.get(`tool:${parent}`), content)
  const named = uuid === null ? undefined : draft.places.get(`echo:${uuid}`)
  if (named !== undefined) return named
  if (uuid !== null || flag(event.data, 'synthetic')) return null
  const unnamed = withText(draft, draft.awaitingEcho, content)
  if (unnamed !== undefined) return unnamed
  // Some workers do not report which sub-agent a prompt belongs to.
  for (const place of draft.running.values()) {
    const prompted = promptOf(draft, place, content)
    if (prompted !== null) return prompted
  }
  return null
}

/** The sub-agent at this place, if the content is its prompt, which its row shows already. */
function promptOf(draft: Draft, place: Place | undefined, content: string | null): Place | null {
  if (place === undefined || content === null) return null
  const row = draft.at(place)
  return row.kind === 'subagent' && row.prompt.trim() === content.trim() ? place : null
}

/** Whether this is the task prompt: the first message without a sender, if the log is loaded from its start. */
function isTaskPrompt(draft: Draft, event: LogEvent): boolean {
  const isPlain = !flag(event.data, 'synthetic') && base(event).parent === null
  return isPlain && draft.fromStart && draft.places.get('task') === undefined
}

function messageRow(event: LogEvent, key: string | undefined): MessageRow {
  const { data } = event
  return {
    kind: 'message',
    text: text(data, 'content') ?? '',
    messageId: null,
    messageType: typeOf(data),
    sender: senderOf(data),
    synthetic: false,
    rest: isOmitted(event, 'content') ? event.seq : null,
    receipts: [],
    ...base(event, key),
  }
}

const RECEIPT_LABELS: Readonly<Record<MessageState, string>> = {
  queued: 'sent',
  fetched: 'fetched',
  delivered: 'delivered',
  started: 'started',
  completed: 'completed',
  cancelled: 'cancelled',
}

/** A receipt of a message that was sent before the loaded part of the log. */
function unknownReceipt(draft: Draft, event: LogEvent): Place {
  const state = stateOf(event.type) ?? 'queued'
  return draft.add({
    ...base(event),
    kind: 'line',
    tone: 'quiet',
    text: `Earlier message: ${RECEIPT_LABELS[state]}`,
    detail: firstText(event.data, 'detail'),
    eventType: event.type,
  })
}

function withText(draft: Draft, places: readonly Place[], content: string | null): Place | undefined {
  return places.find((place) => {
    const row = draft.at(place)
    return row.kind === 'message' && row.text === content
  })
}

function without(draft: Draft, places: readonly Place[], removed: Place): readonly Place[] {
  const { key } = draft.at(removed)
  return places.length === 0 ? places : places.filter((place) => draft.at(place).key !== key)
}

function stateOf(eventType: string): MessageState | null {
  return MESSAGE_STATES.find((state) => eventType === `message.${state}`) ?? null
}

function typeOf(data: JsonObject): MessageType {
  const value = text(data, 'message_type')
  return value === 'guardian_nudge' ? 'guidance' : (MESSAGE_TYPES.find((type) => type === value) ?? 'user_message')
}

function senderOf(data: JsonObject): MessageRow['sender'] {
  const sender = object(data, 'sender')
  const kind = sender === null ? null : firstText(sender, 'kind')
  const id = (sender === null ? null : firstText(sender, 'id')) ?? firstText(data, 'sender_id')
  return kind === null && id === null ? null : { kind: kind ?? 'user', id }
}
