import { fromPage } from '../timeline/event'
import type { EventFrame, EventOut, EventPage, JsonObject } from './contract'
import { ApiError } from './http'
import type { Socket, Environment } from './environment'

/**
 * A control plane for tests: one log, sockets that can disconnect and drop, duplicate or delay frames, pages with
 * limits, and a clock that tests advance. Nothing here waits for real time.
 */
export class FakePlane {
  now = 1_000_000
  randomValue = 0.5
  online = true
  token: string | null = 'good'
  /** Accepted tokens; `null` stands for anonymous access. */
  accepted = new Set<string | null>(['good'])
  /** The token in the browser's local storage. */
  storedToken: string | null = 'good'
  /** Whether requests and handshakes succeed. */
  up = true
  /** Number of upcoming frames that are dropped while the socket stays open. */
  framesToDrop = 0
  duplicating = false
  /** Frames are held back until `deliver`. */
  holding = false
  largestPage = 500
  /** Number of upcoming requests that fail. */
  requestsToFail = 0
  /** Sockets open but never send a frame. */
  silent = false
  /** Delay between reading a page and delivering it. */
  latencyMs = 0
  /** Requests get no response and fail after the timeout of `http.ts`. */
  requestsHang = false
  readonly requests: string[] = []
  readonly sockets: FakeSocket[] = []
  readonly log: EventOut[] = []
  readonly #timers = new Map<number, { at: number; run: () => void }>()
  readonly #paints = new Set<() => void>()
  readonly #wakeListeners = new Set<() => void>()
  readonly #offlineListeners = new Set<() => void>()
  readonly #tokenListeners = new Set<() => void>()
  #held: { socket: FakeSocket; text: string }[] = []
  #count = 0

  readonly environment: Environment = {
    now: () => this.now,
    random: () => this.randomValue,
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
      if (this.requestsHang) await this.#timeout(signal)
      this.requestsToFail -= 1
      if (!this.up || this.requestsToFail >= 0)
        throw new ApiError(0, 'unreachable', 'Cannot reach the control plane.', null, null)
      const page = this.page(query)
      if (this.latencyMs > 0) await new Promise<void>((resolve) => this.environment.later(resolve, this.latencyMs))
      signal.throwIfAborted()
      // Tests only ever request event pages, so `T` is `EventPage`.
      return page as T
    },
    token: () => this.token,
    reloadToken: (rejected) => {
      if (this.storedToken === rejected) return false
      this.signIn(this.storedToken)
      return true
    },
    onToken: (listener) => subscribe(this.#tokenListeners, listener),
    isOnline: () => this.online,
    onWake: (listener) => subscribe(this.#wakeListeners, listener),
    onOffline: (listener) => subscribe(this.#offlineListeners, listener),
  }

  #timeout(signal: AbortSignal) {
    return new Promise<never>((_, reject) => {
      const cancel = this.environment.later(
        () => reject(new ApiError(0, 'unreachable', 'Timed out.', null, null)),
        30_000,
      )
      signal.addEventListener('abort', () => {
        cancel()
        reject(new Error('aborted'))
      })
    })
  }

  get socket(): FakeSocket | undefined {
    return this.sockets.findLast((socket) => !socket.closed)
  }

  /** Timers, paints, sockets and listeners that were not released. */
  get openResources() {
    return {
      timers: this.#timers.size,
      paints: this.#paints.size,
      sockets: this.sockets.filter((socket) => !socket.closed).length,
      listeners: this.#wakeListeners.size + this.#offlineListeners.size + this.#tokenListeners.size,
    }
  }

  signIn(token: string | null) {
    this.token = token
    for (const listener of this.#tokenListeners) listener()
  }

  wakeUp() {
    this.online = true
    for (const listener of [...this.#wakeListeners]) listener()
  }

  goOffline() {
    this.online = false
    for (const listener of [...this.#offlineListeners]) listener()
  }

  /** Stores events and broadcasts them. */
  append(count: number, type = 'agent.message', data: JsonObject = {}) {
    const frames: EventFrame[] = []
    for (let more = 0; more < count; more += 1) {
      const seq = this.log.length + 1
      const at = new Date(this.now).toISOString()
      const event_data = { content: `event ${seq}`, ...data }
      const id = `e-${seq}`
      this.log.push({
        sandbox_id: 's',
        id,
        seq,
        event_type: type,
        event_data,
        source: 'agent',
        created_at: at,
        emitted_at: null,
      })
      frames.push(frame({ id, seq, type, data: event_data, at }))
    }
    this.broadcast(...frames)
  }

  /** Sends frames to every subscribed socket. */
  broadcast(...frames: EventFrame[]) {
    const first = frames[0]
    if (first === undefined) return
    const text = JSON.stringify(frames.length === 1 ? first : { type: 'events', events: frames })
    for (const socket of this.sockets) {
      if (socket.closed || !socket.subscribed) continue
      if (this.framesToDrop > 0) this.framesToDrop -= 1
      else for (let times = this.duplicating ? 2 : 1; times > 0; times -= 1) this.send(socket, text)
    }
  }

  send(socket: FakeSocket, text: string) {
    if (this.holding) this.#held.push({ socket, text })
    else socket.onmessage?.({ data: text })
  }

  /** Releases the frames that `holding` kept back. */
  deliver() {
    const held = this.#held
    this.#held = []
    for (const { socket, text } of held) socket.onmessage?.({ data: text })
  }

  /** Closes all sockets without an error frame. */
  disconnect() {
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

  /** Runs all pending microtasks, so that responses and what follows from them are processed. */
  async flush() {
    await new Promise((resolve) => setImmediate(resolve))
  }

  /** Runs the callbacks that wait for the next animation frame. */
  paint() {
    const paints = [...this.#paints]
    this.#paints.clear()
    for (const run of paints) run()
  }

  /** Advances the clock and runs the timers that become due, in order. */
  async advance(milliseconds: number) {
    const until = this.now + milliseconds
    await this.flush()
    for (;;) {
      const [next] = [...this.#timers].sort(([, left], [, right]) => left.at - right.at)
      if (next === undefined || next[1].at > until) break
      this.#timers.delete(next[0])
      this.now = Math.max(this.now, next[1].at)
      next[1].run()
      await this.flush()
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
  /** Whether the connection is half-open: it stays open, but nothing is answered. */
  unresponsive = false
  readonly sent: JsonObject[] = []
  readonly url: string
  readonly #plane: FakePlane
  #authenticated = false

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
    const received = JSON.parse(text) as JsonObject
    this.sent.push(received)
    if (this.unresponsive || this.#plane.silent) return
    void Promise.resolve().then(() => {
      if (!this.closed) this.#answer(received)
    })
  }

  close() {
    this.closed = true
    this.subscribed = false
  }

  /** The server closes it. */
  end() {
    if (this.closed) return
    this.close()
    this.onclose?.()
  }

  #answer(received: JsonObject) {
    if (received['type'] === 'ping') {
      this.#reply({ type: 'pong' })
      return
    }
    const bearer = received['type'] === 'auth' && typeof received['token'] === 'string' ? received['token'] : null
    if (!this.#authenticated && !this.#plane.accepted.has(bearer)) {
      this.#reply({ error: 'Authentication required.', code: 'unauthorized' })
      this.end()
      return
    }
    this.#authenticated = true
    this.subscribed = true
    if (received['type'] === 'auth') this.#reply({ status: 'authenticated' })
    this.#reply({ status: 'subscribed', filters: {}, batch: true })
  }

  #reply(value: JsonObject) {
    this.onmessage?.({ data: JSON.stringify(value) })
  }
}

interface FakeEvent {
  id: string
  seq: number | null
  type: string
  data: JsonObject
  at: string
}

/** An event of sandbox `s` as a socket frame. */
export function frame({ id, seq, type, data, at }: FakeEvent): EventFrame {
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

/** The events a client has that missed none. */
export const allEvents = (plane: FakePlane) => plane.log.map(fromPage)

function subscribe(listeners: Set<() => void>, listener: () => void) {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
