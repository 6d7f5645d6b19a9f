import { fromPage } from '../timeline/event'
import type { EventFrame, EventOut, EventPage, JsonObject } from './contract'
import { Refused } from './http'
import type { Socket, World } from './socket-world'

/**
 * A plane for tests: one log, sockets that can be cut, lose, double and delay, pages with limits, and a clock that only
 * moves when it is told to. Nothing here waits for real time.
 */
export class FakePlane {
  now = 1_000_000
  chance = 0.5
  online = true
  token: string | null = 'good'
  /** Tokens that are let in; `null` stands for nobody in particular, on an open plane. */
  accepted = new Set<string | null>(['good'])
  /** What a look at the browser's memory would find. */
  kept: string | null = 'good'
  /** Whether requests and handshakes are answered. */
  up = true
  /** How many frames of the next ones do not arrive though the socket stays. */
  losing = 0
  doubling = false
  /** Frames wait until `deliver`. */
  holding = false
  largestPage = 500
  /** How many of the next requests fail. */
  failing = 0
  /** Sockets open, and never say a word. */
  speechless = false
  /** How long a page is on its way, as it was when it was read. */
  slowness = 0
  /** Requests that are sent now are never answered. They fail after the timeout of `http.ts`. */
  hanging = false
  readonly requests: string[] = []
  readonly sockets: FakeSocket[] = []
  readonly log: EventOut[] = []
  readonly #timers = new Map<number, { at: number; run: () => void }>()
  readonly #paints = new Set<() => void>()
  readonly #wake = new Set<() => void>()
  readonly #offline = new Set<() => void>()
  readonly #tokens = new Set<() => void>()
  #held: { socket: FakeSocket; text: string }[] = []
  #count = 0

  readonly world: World = {
    now: () => this.now,
    random: () => this.chance,
    later: (run, milliseconds) => {
      this.#count += 1
      const id = this.#count
      this.#timers.set(id, { at: this.now + milliseconds, run })
      return () => this.#timers.delete(id)
    },
    paint: (run) => {
      this.#paints.add(run)
      return () => this.#paints.delete(run)
    },
    socket: (url) => {
      const socket = new FakeSocket(this, url)
      this.sockets.push(socket)
      return socket
    },
    get: async <T>(path: string, query: Record<string, unknown>, signal: AbortSignal) => {
      this.requests.push(`${path}?${new URLSearchParams(query as Record<string, string>).toString()}`)
      await Promise.resolve()
      signal.throwIfAborted()
      if (this.hanging) await this.#timeout(signal)
      this.failing -= 1
      if (!this.up || this.failing >= 0) throw new Refused(0, 'unreachable', 'The plane cannot be reached.', null, null)
      const page = this.page(query)
      if (this.slowness > 0) await new Promise<void>((resolve) => this.world.later(resolve, this.slowness))
      signal.throwIfAborted()
      // What the plane has in its log is what it would say: tests have no other type for it.
      return page as T
    },
    token: () => this.token,
    renew: (refused) => {
      if (this.kept === refused) return false
      this.signIn(this.kept)
      return true
    },
    onToken: (listener) => listen(this.#tokens, listener),
    isOnline: () => this.online,
    onWake: (listener) => listen(this.#wake, listener),
    onOffline: (listener) => listen(this.#offline, listener),
  }

  #timeout(signal: AbortSignal) {
    return new Promise<never>((_, reject) => {
      const cancel = this.world.later(() => reject(new Refused(0, 'unreachable', 'Timed out.', null, null)), 30_000)
      signal.addEventListener('abort', () => {
        cancel()
        reject(new Error('aborted'))
      })
    })
  }

  /** The socket that is open, if one is. */
  get socket(): FakeSocket | undefined {
    return this.sockets.findLast((socket) => !socket.closed)
  }

  /** What somebody would have left behind. */
  get leftovers() {
    return {
      timers: this.#timers.size,
      paints: this.#paints.size,
      sockets: this.sockets.filter((socket) => !socket.closed).length,
      listeners: this.#wake.size + this.#offline.size + this.#tokens.size,
    }
  }

  signIn(token: string | null) {
    this.token = token
    for (const listener of this.#tokens) listener()
  }

  wakeUp() {
    this.online = true
    for (const listener of [...this.#wake]) listener()
  }

  goOffline() {
    this.online = false
    for (const listener of [...this.#offline]) listener()
  }

  /** Stores events and tells of them. */
  append(count: number, type = 'agent.message', data: JsonObject = {}) {
    const frames: EventFrame[] = []
    for (let more = 0; more < count; more += 1) {
      const seq = this.log.length + 1
      const at = new Date(this.now).toISOString()
      const event_data = { content: `event ${seq}`, ...data }
      const id = `e-${seq}`
      this.log.push({ sandbox_id: 's', id, seq, event_type: type, event_data, source: 'agent', created_at: at, emitted_at: null })
      frames.push(frame({ id, seq, type, data: event_data, at }))
    }
    this.tell(...frames)
  }

  /** Sends frames to whoever is subscribed. */
  tell(...frames: EventFrame[]) {
    const first = frames[0]
    if (first === undefined) return
    const text = JSON.stringify(frames.length === 1 ? first : { type: 'events', events: frames })
    for (const socket of this.sockets) {
      if (socket.closed || !socket.subscribed) continue
      if (this.losing > 0) this.losing -= 1
      else for (let times = this.doubling ? 2 : 1; times > 0; times -= 1) this.send(socket, text)
    }
  }

  send(socket: FakeSocket, text: string) {
    if (this.holding) this.#held.push({ socket, text })
    else socket.onmessage?.({ data: text })
  }

  /** Lets go what was held back. */
  deliver() {
    const held = this.#held
    this.#held = []
    for (const { socket, text } of held) socket.onmessage?.({ data: text })
  }

  /** Ends all sockets without a word. */
  cut() {
    this.#held = []
    for (const socket of this.sockets) socket.end()
  }

  page(query: Record<string, unknown>): EventPage {
    const number = (name: string, otherwise: number) => Number(query[name] ?? otherwise)
    const after = number('after_seq', 0)
    const before = number('before_seq', Number.POSITIVE_INFINITY)
    const limit = Math.min(number('limit', 100), this.largestPage)
    const range = this.log.filter(({ seq }) => seq > after && seq < before)
    const oldest = query['order'] === 'oldest'
    const events = oldest ? range.slice(0, limit) : range.slice(-limit).reverse()
    const last = events.at(-1)?.seq ?? null
    return {
      sandbox_id: 's',
      events,
      total_count: this.log.length,
      last_seq: this.log.length,
      has_more: range.length > events.length,
      next_after_seq: oldest ? last : null,
      next_before_seq: oldest ? null : last,
    }
  }

  /** Lets answers arrive, and what they lead to: all of it is done before the next turn of the event loop. */
  async settle() {
    await new Promise((resolve) => setImmediate(resolve))
  }

  /** Paints, if somebody asked for it. */
  paint() {
    const paints = [...this.#paints]
    this.#paints.clear()
    for (const run of paints) run()
  }

  /** Moves the clock, and runs what is due on the way in its order. */
  async pass(milliseconds: number) {
    const until = this.now + milliseconds
    await this.settle()
    for (;;) {
      const [next] = [...this.#timers].sort(([, left], [, right]) => left.at - right.at)
      if (next === undefined || next[1].at > until) break
      this.#timers.delete(next[0])
      this.now = Math.max(this.now, next[1].at)
      next[1].run()
      await this.settle()
    }
    this.now = until
    this.paint()
  }
}

export class FakeSocket implements Socket {
  onopen: (() => void) | null = null
  onmessage: ((message: { data: unknown }) => void) | null = null
  onclose: (() => void) | null = null
  closed = false
  subscribed = false
  /** Whether it answers at all; one that does not is dead and does not know it. */
  deaf = false
  readonly sent: JsonObject[] = []
  readonly url: string
  readonly #plane: FakePlane
  #known = false

  constructor(plane: FakePlane, url: string) {
    this.#plane = plane
    this.url = url
    void Promise.resolve().then(() => {
      if (this.closed) return
      if (plane.up) this.onopen?.()
      else this.end()
    })
  }

  send(text: string) {
    const said = JSON.parse(text) as JsonObject
    this.sent.push(said)
    if (this.deaf || this.#plane.speechless) return
    void Promise.resolve().then(() => {
      if (!this.closed) this.#answer(said)
    })
  }

  close() {
    this.closed = true
    this.subscribed = false
  }

  /** The other side ends it. */
  end() {
    if (this.closed) return
    this.close()
    this.onclose?.()
  }

  #answer(said: JsonObject) {
    if (said['type'] === 'ping') {
      this.#say({ type: 'pong' })
      return
    }
    const bearer = said['type'] === 'auth' && typeof said['token'] === 'string' ? said['token'] : null
    if (!this.#known && !this.#plane.accepted.has(bearer)) {
      this.#say({ error: 'Who are you?', code: 'unauthorized' })
      this.end()
      return
    }
    this.#known = true
    this.subscribed = true
    if (said['type'] === 'auth') this.#say({ status: 'authenticated' })
    this.#say({ status: 'subscribed', filters: {}, batch: true })
  }

  #say(value: JsonObject) {
    this.onmessage?.({ data: JSON.stringify(value) })
  }
}

interface Told {
  id: string
  seq: number | null
  type: string
  data: JsonObject
  at: string
}

/** An event of sandbox `s`, as sockets tell of it. */
export function frame({ id, seq, type, data, at }: Told): EventFrame {
  return {
    id,
    seq,
    event_type: `SANDBOX_${type.toUpperCase().replaceAll('.', '_')}`,
    entity_type: 'sandbox',
    entity_id: 's',
    payload: { ...data, source: 'agent', original_event_type: type },
    timestamp: at,
  }
}

/** What a reader who missed nothing has. */
export const whole = (plane: FakePlane) => plane.log.map(fromPage)

function listen(listeners: Set<() => void>, listener: () => void) {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
