import { MESSAGE_STATES, MESSAGE_TYPES, type JsonObject, type MessageState, type MessageType } from '../api/contract'
import { base, type Draft, type Place } from './draft'
import type { LogEvent } from './event'
import { firstText, flag, isOmitted, object, text } from './read'
import type { SaidRow } from './rows'

// A message is one row, where it was sent. The plane tells how far it comes by `message_id`; the worker tells under
// which `message_uuid` it gives it to the agent; the agent echoes what it reads under that name.

/** Somebody sends a message. */
export function queued(draft: Draft, event: LogEvent): Place {
  const id = firstText(event.data, 'message_id')
  const place = draft.add({
    ...said(event, id === null ? undefined : `message:${id}`),
    messageId: id,
    receipts: [{ state: 'queued', at: event.at, detail: null }],
  })
  draft.unclaimed = draft.remember(draft.unclaimed, place)
  return place
}

/** It has come further: `message.delivered`. */
export function receipt(draft: Draft, event: LogEvent): Place {
  const state = stateOf(event.type)
  const id = firstText(event.data, 'message_id')
  const place = id === null ? undefined : draft.places.get(`message:${id}`)
  const row = place === undefined ? null : draft.changeIf(place, 'said', event)
  if (place === undefined || row === null || state === null) return unknownReceipt(draft, event)
  // It is handed out again until somebody confirms it: the first time counts.
  if (!row.receipts.some((each) => each.state === state)) {
    row.receipts = [...row.receipts, { state, at: event.at, detail: firstText(event.data, 'detail') }]
  }
  if (state === 'cancelled') draft.unclaimed = without(draft, draft.unclaimed, place)
  return place
}

/** The worker gives a message to the agent. */
export function injected(draft: Draft, event: LogEvent): Place {
  const { data } = event
  const id = firstText(data, 'message_id')
  const uuid = firstText(data, 'message_uuid')
  const content = text(data, 'content')
  const named = id === null ? undefined : draft.places.get(`message:${id}`)
  const known = named ?? (id === null ? withText(draft, draft.unclaimed, content) : undefined)
  const place = known ?? draft.add({ ...said(event, id === null ? undefined : `message:${id}`), messageId: id })
  const row = draft.changeIf(place, 'said', event)
  if (row?.text === '' && content !== null) row.text = content
  draft.unclaimed = without(draft, draft.unclaimed, place)
  if (uuid !== null) draft.places.set(`heard:${uuid}`, place)
  else draft.unheard = draft.remember(draft.unheard, place)
  return place
}

/** The agent reads something: a message, its task, or what its own machinery has to say. */
export function heard(draft: Draft, event: LogEvent): Place {
  const { data } = event
  const uuid = firstText(data, 'message_uuid')
  const content = text(data, 'content')
  const known = echoed(draft, event, uuid, content)
  if (known !== null) {
    draft.change(known, event)
    draft.unheard = without(draft, draft.unheard, known)
    return known
  }
  const isTask = isTaskItself(draft, event)
  const key = isTask ? 'task' : uuid === null ? undefined : `uuid:${uuid}`
  const row = said(event, key)
  // What nobody sent is the worker's: go on, mend this, you were interrupted.
  return draft.add({ ...row, messageType: isTask ? 'task' : 'system', synthetic: !isTask, sender: null })
}

function echoed(draft: Draft, event: LogEvent, uuid: string | null, content: string | null): Place | null {
  const parent = base(event).parent
  if (parent !== null) return promptOf(draft, draft.places.get(`tool:${parent}`), content)
  const named = uuid === null ? undefined : draft.places.get(`heard:${uuid}`)
  if (named !== undefined) return named
  if (uuid !== null || flag(event.data, 'synthetic')) return null
  const unnamed = withText(draft, draft.unheard, content)
  if (unnamed !== undefined) return unnamed
  // Workers that do not say whose prompt it is.
  for (const place of draft.running.values()) {
    const prompted = promptOf(draft, place, content)
    if (prompted !== null) return prompted
  }
  return null
}

/** The sub-agent there, if this is its prompt, which its row shows already. */
function promptOf(draft: Draft, place: Place | undefined, content: string | null): Place | null {
  if (place === undefined || content === null) return null
  const row = draft.at(place)
  return row.kind === 'subagent' && row.prompt.trim() === content.trim() ? place : null
}

/** The first thing that an agent reads and nobody sent. Only who knows the log from its start knows what came first. */
function isTaskItself(draft: Draft, event: LogEvent): boolean {
  const isPlain = !flag(event.data, 'synthetic') && base(event).parent === null
  return isPlain && draft.fromStart && draft.places.get('task') === undefined
}

function said(event: LogEvent, key: string | undefined): SaidRow {
  const { data } = event
  return {
    kind: 'said',
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

const RECEIPT_WORDS: Readonly<Record<MessageState, string>> = {
  queued: 'sent',
  fetched: 'fetched',
  delivered: 'delivered',
  started: 'begun',
  completed: 'done',
  cancelled: 'cancelled',
}

/** A receipt of a message that was sent before the loaded part of the log. */
function unknownReceipt(draft: Draft, event: LogEvent): Place {
  const state = stateOf(event.type) ?? 'queued'
  return draft.add({
    ...base(event),
    kind: 'line',
    tone: 'quiet',
    text: `An earlier message: ${RECEIPT_WORDS[state]}`,
    detail: firstText(event.data, 'detail'),
    eventType: event.type,
  })
}

function withText(draft: Draft, places: readonly Place[], content: string | null): Place | undefined {
  return places.find((place) => {
    const row = draft.at(place)
    return row.kind === 'said' && row.text === content
  })
}

function without(draft: Draft, places: readonly Place[], gone: Place): readonly Place[] {
  const { key } = draft.at(gone)
  return places.length === 0 ? places : places.filter((place) => draft.at(place).key !== key)
}

function stateOf(eventType: string): MessageState | null {
  return MESSAGE_STATES.find((state) => eventType === `message.${state}`) ?? null
}

function typeOf(data: JsonObject): MessageType {
  const told = text(data, 'message_type')
  return told === 'guardian_nudge' ? 'guidance' : (MESSAGE_TYPES.find((type) => type === told) ?? 'user_message')
}

function senderOf(data: JsonObject): SaidRow['sender'] {
  const sender = object(data, 'sender')
  const kind = sender === null ? null : firstText(sender, 'kind')
  const id = (sender === null ? null : firstText(sender, 'id')) ?? firstText(data, 'sender_id')
  return kind === null && id === null ? null : { kind: kind ?? 'user', id }
}
