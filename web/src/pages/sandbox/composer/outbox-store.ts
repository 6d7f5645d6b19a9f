import type { MessageQueued, MessageType, NewMessage } from '../../../api/contract'
import { sentence } from '../../../api/errors'
import { Refused } from '../../../api/http'
import { sendMessage } from '../../../api/queries'
import { freshId } from '../../../util/ids'
import { add, again, decode, encode, failed, type Outbox, type Outgoing, queued, unseen, without } from './outbox'

export interface Desk {
  /** What is typed and not sent. */
  readonly draft: string
  /** What is sent and not in the log. */
  readonly messages: Outbox
}

/** What a person says to one sandbox's agent, kept in this browser until the plane has it. */
export interface OutboxStore {
  readonly desk: () => Desk
  readonly subscribe: (listener: () => void) => () => void
  readonly write: (draft: string) => void
  readonly send: (type: MessageType, content: string) => void
  readonly retry: (id: string) => void
  /** Puts its text back to where it is typed. */
  readonly edit: (id: string) => void
  readonly discard: (id: string) => void
  /** The log is loaded up to `last`, and tells of these messages: they are not ours to keep any more. */
  readonly settle: (last: number, told: ReadonlySet<string>) => void
}

export interface OutboxWorld {
  storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>
  send: (sandboxId: string, message: NewMessage) => Promise<MessageQueued>
  newId: () => string
  now: () => number
  wait: (milliseconds: number) => Promise<void>
}

/** A request that got no answer is repeated once by itself: a plane that is started anew is back by then. */
const REPEAT_AFTER_MS = 1_000

/** The one of a sandbox: pages come and go, and what is on its way goes on. */
export function outboxOf(sandboxId: string): OutboxStore {
  const known = stores.get(sandboxId)
  if (known !== undefined) return known
  const store = openOutbox(sandboxId, browser)
  stores.set(sandboxId, store)
  return store
}

const stores = new Map<string, OutboxStore>()

export function openOutbox(sandboxId: string, world: OutboxWorld): OutboxStore {
  const draftKey = `sunaba.draft.${sandboxId}`
  const outboxKey = `sunaba.outbox.${sandboxId}`
  const listeners = new Set<() => void>()
  let desk: Desk = { draft: read(draftKey) ?? '', messages: decode(read(outboxKey), world.now()) }
  /** Every message that this page ever had. Others in the browser's memory are another tab's. */
  const mine = new Set(desk.messages.map(({ id }) => id))
  const onTheWay = new Set<string>()
  const lanes = { urgent: Promise.resolve(), usual: Promise.resolve() }

  function change(what: Partial<Desk>) {
    const before = desk
    desk = { ...desk, ...what }
    // What another tab has written since is that tab's, and stays.
    const isMine = desk.draft !== '' || read(draftKey) === before.draft
    if (desk.draft !== before.draft && isMine) keep(draftKey, desk.draft)
    if (desk.messages !== before.messages) keepMessages()
    for (const listener of listeners) listener()
  }

  function keepMessages() {
    const others = decode(read(outboxKey), world.now()).filter(({ id }) => !mine.has(id))
    const text = encode([...others, ...desk.messages])
    keep(outboxKey, text === '[]' ? '' : text)
  }

  /** One after the other, so that they arrive in order; what is urgent does not wait for the rest. */
  function dispatch(message: Outgoing) {
    if (onTheWay.has(message.id)) return
    onTheWay.add(message.id)
    const lane = message.type === 'interrupt' || message.type === 'stop' ? 'urgent' : 'usual'
    lanes[lane] = lanes[lane].then(() => deliver(message))
  }

  async function deliver({ id, type, content }: Outgoing) {
    const message = { message_id: id, message_type: type, content }
    try {
      const { seq } = await world.send(sandboxId, message).catch(async (error: unknown) => {
        if (!(error instanceof Refused && error.mayPass)) throw error
        await world.wait(REPEAT_AFTER_MS)
        return world.send(sandboxId, message)
      })
      change({ messages: queued(desk.messages, id, seq) })
    } catch (error) {
      change({ messages: failed(desk.messages, id, sentence(error)) })
    } finally {
      onTheWay.delete(id)
    }
  }

  function read(key: string): string | null {
    try {
      return world.storage.getItem(key)
    } catch {
      return null
    }
  }

  function keep(key: string, value: string) {
    try {
      if (value === '') world.storage.removeItem(key)
      else world.storage.setItem(key, value)
    } catch {
      // A browser that keeps nothing has it until the page is closed.
    }
  }

  // Nobody knows whether these arrived. Under the same id they arrive once.
  for (const message of desk.messages) if (message.state === 'sending') dispatch(message)

  return {
    desk: () => desk,
    subscribe: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    write: (draft) => change({ draft }),
    send: (type, content) => {
      const message = { id: world.newId(), type, content, at: new Date(world.now()).toISOString() }
      mine.add(message.id)
      change({ messages: add(desk.messages, message) })
      const added = desk.messages.at(-1)
      if (added !== undefined) dispatch(added)
    },
    retry: (id) => {
      change({ messages: again(desk.messages, id) })
      const message = desk.messages.find((each) => each.id === id)
      if (message !== undefined) dispatch(message)
    },
    edit: (id) => {
      const message = desk.messages.find((each) => each.id === id)
      if (message === undefined) return
      const draft = [message.content, desk.draft].filter((text) => text.trim() !== '').join('\n')
      change({ draft, messages: without(desk.messages, id) })
    },
    discard: (id) => change({ messages: without(desk.messages, id) }),
    settle: (last, told) => {
      const messages = unseen(desk.messages, last, told)
      if (messages !== desk.messages) change({ messages })
    },
  }
}

const browser: OutboxWorld = {
  // Asked for each time: merely naming it throws where the browser forbids it.
  storage: {
    getItem: (key) => localStorage.getItem(key),
    setItem: (key, value) => localStorage.setItem(key, value),
    removeItem: (key) => localStorage.removeItem(key),
  },
  send: sendMessage,
  newId: () => freshId('message'),
  now: () => Date.now(),
  wait: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
}
