import type { MessageQueued, MessageType, NewMessage } from '../../../api/contract'
import { errorMessage } from '../../../api/errors'
import { ApiError } from '../../../api/http'
import { sendMessage } from '../../../api/queries'
import { uniqueId } from '../../../util/ids'
import { add, retrying, decode, encode, failed, type Outbox, type Outgoing, queued, unlogged, without } from './outbox'

export interface OutboxState {
  /** Text that is not sent yet. */
  readonly draft: string
  /** Sent messages that are not in the log yet. */
  readonly messages: Outbox
}

/** The messages to the agent of a sandbox, stored in the browser until the control plane has them. */
export interface OutboxStore {
  readonly state: () => OutboxState
  readonly subscribe: (listener: () => void) => () => void
  readonly write: (draft: string) => void
  readonly send: (type: MessageType, content: string) => void
  readonly retry: (id: string) => void
  /** Moves its text back into the draft. */
  readonly edit: (id: string) => void
  readonly discard: (id: string) => void
  /** Removes messages that the log contains: it is loaded up to `last` and includes the messages `logged`. */
  readonly prune: (last: number, logged: ReadonlySet<string>) => void
}

export interface OutboxEnvironment {
  storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>
  send: (sandboxId: string, message: NewMessage) => Promise<MessageQueued>
  newId: () => string
  now: () => number
  wait: (milliseconds: number) => Promise<void>
}

/** A failed request is retried once automatically: a control plane that restarts is usually back by then. */
const RETRY_DELAY_MS = 1_000

/** The store of a sandbox. It outlives the page, so pending requests continue. */
export function outboxOf(sandboxId: string): OutboxStore {
  const known = stores.get(sandboxId)
  if (known !== undefined) return known
  const store = openOutbox(sandboxId, browserEnvironment)
  stores.set(sandboxId, store)
  return store
}

const stores = new Map<string, OutboxStore>()

export function openOutbox(sandboxId: string, environment: OutboxEnvironment): OutboxStore {
  const draftKey = `sunaba.draft.${sandboxId}`
  const outboxKey = `sunaba.outbox.${sandboxId}`
  const listeners = new Set<() => void>()
  let state: OutboxState = { draft: read(draftKey) ?? '', messages: decode(read(outboxKey), environment.now()) }
  /** All messages of this page. Other messages in the storage belong to other tabs. */
  const ownIds = new Set(state.messages.map(({ id }) => id))
  const inFlight = new Set<string>()
  const queues = { urgent: Promise.resolve(), normal: Promise.resolve() }

  function change(what: Partial<OutboxState>) {
    const before = state
    state = { ...state, ...what }
    // Do not overwrite a draft that another tab has written since.
    const isOwnDraft = state.draft !== '' || read(draftKey) === before.draft
    if (state.draft !== before.draft && isOwnDraft) store(draftKey, state.draft)
    if (state.messages !== before.messages) storeMessages()
    for (const listener of listeners) listener()
  }

  function storeMessages() {
    const others = decode(read(outboxKey), environment.now()).filter(({ id }) => !ownIds.has(id))
    const text = encode([...others, ...state.messages])
    store(outboxKey, text === '[]' ? '' : text)
  }

  /** Messages are sent one after the other to keep their order. Urgent ones do not wait for the others. */
  function dispatch(message: Outgoing) {
    if (inFlight.has(message.id)) return
    inFlight.add(message.id)
    const queue = message.type === 'interrupt' || message.type === 'stop' ? 'urgent' : 'normal'
    queues[queue] = queues[queue].then(() => deliver(message))
  }

  async function deliver({ id, type, content }: Outgoing) {
    const message = { message_id: id, message_type: type, content }
    try {
      const { seq } = await environment.send(sandboxId, message).catch(async (error: unknown) => {
        if (!(error instanceof ApiError && error.isRetryable)) throw error
        await environment.wait(RETRY_DELAY_MS)
        return environment.send(sandboxId, message)
      })
      change({ messages: queued(state.messages, id, seq) })
    } catch (error) {
      change({ messages: failed(state.messages, id, errorMessage(error)) })
    } finally {
      inFlight.delete(id)
    }
  }

  function read(key: string): string | null {
    try {
      return environment.storage.getItem(key)
    } catch {
      return null
    }
  }

  function store(key: string, value: string) {
    try {
      if (value === '') environment.storage.removeItem(key)
      else environment.storage.setItem(key, value)
    } catch {
      // Without local storage the messages last until the page is closed.
    }
  }

  // It is unknown whether these arrived. Resending is idempotent because the id is the same.
  for (const message of state.messages) if (message.state === 'sending') dispatch(message)

  return {
    state: () => state,
    subscribe: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    write: (draft) => change({ draft }),
    send: (type, content) => {
      const message = { id: environment.newId(), type, content, at: new Date(environment.now()).toISOString() }
      ownIds.add(message.id)
      change({ messages: add(state.messages, message) })
      const added = state.messages.at(-1)
      if (added !== undefined) dispatch(added)
    },
    retry: (id) => {
      change({ messages: retrying(state.messages, id) })
      const message = state.messages.find((each) => each.id === id)
      if (message !== undefined) dispatch(message)
    },
    edit: (id) => {
      const message = state.messages.find((each) => each.id === id)
      if (message === undefined) return
      const draft = [message.content, state.draft].filter((text) => text.trim() !== '').join('\n')
      change({ draft, messages: without(state.messages, id) })
    },
    discard: (id) => change({ messages: without(state.messages, id) }),
    prune: (last, logged) => {
      const messages = unlogged(state.messages, last, logged)
      if (messages !== state.messages) change({ messages })
    },
  }
}

const browserEnvironment: OutboxEnvironment = {
  // Accessed on each call: where the browser forbids local storage, evaluating `localStorage` throws.
  storage: {
    getItem: (key) => localStorage.getItem(key),
    setItem: (key, value) => localStorage.setItem(key, value),
    removeItem: (key) => localStorage.removeItem(key),
  },
  send: sendMessage,
  newId: () => uniqueId('message'),
  now: () => Date.now(),
  wait: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
}
