import { type Backoff, backoffMs } from '../util/backoff'
import { timeOfDay } from '../util/time'
import { api } from '../util/paths'
import type { ErrorFrame, EventFrame, FilterChange, Subscribe } from './contract'
import { encodeFrame, parseFrame } from './socket-frames'
import { browserEnvironment, type Socket, type Environment } from './environment'

/** State of the connection to the control plane, as pages show it. */
export type Connection = 'connecting' | 'live' | 'reconnecting' | 'disconnected'

export interface LiveStatus {
  /**
   * `connecting`: it has never been live. `reconnecting`: it has been live before. `disconnected`: repeated attempts
   * failed; it retries at a slow pace, and `detail` gives the time of the next attempt.
   */
  readonly connection: Connection
  /** The reason, as a sentence for people. */
  readonly detail: string | null
  /** Whether events are being received. False during a short disconnect, while `connection` still is `live`. */
  readonly subscribed: boolean
}

export interface LiveOptions {
  filters: FilterChange
  onFrames(frames: readonly EventFrame[]): void
  /** After each subscription, including after `setFilters`. Later events are received; fetch the earlier ones. */
  onSubscribed(): void
  onStatus(status: LiveStatus): void
  environment?: Environment
}

/** A socket that reconnects until it is closed. */
export interface Live {
  readonly status: () => LiveStatus
  /** Connects at once if it is not connected. */
  readonly retryNow: () => void
  /** Replaces a live socket that has lost events. */
  readonly replace: () => void
  /** Changes the subscription; `onSubscribed` confirms it. An absent list lifts its restriction. */
  readonly setFilters: (filters: FilterChange) => void
  readonly close: () => void
}

/** Between reconnect attempts. */
const RECONNECT_BACKOFF: Backoff = { initialMs: 500, maxMs: 30_000 }
/** Without a valid token or permission, a quick attempt is of no use. */
const REJECTED_BACKOFF: Backoff = { initialMs: 30_000, maxMs: 30_000 }
/** The failure count resets after a connection of this length. */
const STABLE_CONNECTION_MS = 10_000
/** Consecutive failures before the status becomes `disconnected`. */
const FAILURES_UNTIL_DISCONNECTED = 6
/** Disconnects shorter than this are not shown: sockets are closed every two hours in any case. */
const HIDDEN_DISCONNECT_MS = 2_000
const PING_MS = 45_000
const SILENCE_MS = 90_000
/** Limit from opening the socket to the `subscribed` frame. */
const HANDSHAKE_MS = 15_000
/** Time to answer a ping after the machine may have slept. */
const PROBE_MS = 5_000

/**
 * Opens a socket and keeps it open.
 *
 * **Invariant:** frames arrive only between an `onSubscribed` and the next disconnect, and every disconnect is followed
 * by an `onSubscribed` before the next frame. A client that fetches on `onSubscribed` misses no event.
 */
export function openLive(options: LiveOptions): Live {
  const environment = options.environment ?? browserEnvironment
  let wanted = options.filters
  /** The filters last requested, and whether the control plane has confirmed them. */
  let requested = wanted
  let confirmed = false
  let socket: Socket | null = null
  let bearer: string | null = null
  let liveSince: number | null = null
  let everLive = false
  let lastReceivedAt = 0
  /** When the connection was lost, while that is not shown yet. */
  let disconnectedAt: number | null = null
  let failures = 0
  let nextAttemptAt = 0
  /** Why the control plane rejected the subscription. `null` for network failures. */
  let rejection: string | null = null
  let reason: string | null = null
  let closed = false
  let status: LiveStatus = { connection: 'connecting', detail: null, subscribed: false }
  const timers = { reconnect: noop, handshake: noop, ping: noop, probe: noop, hiddenDisconnect: noop }

  function connect() {
    dropSocket()
    if (!environment.isOnline()) {
      publishStatus()
      return
    }
    const opened = environment.socket(api.socket)
    socket = opened
    startHandshake()
    opened.onopen = () => {
      bearer = environment.token()
      // The control plane stores nothing about a socket before it is authenticated, so the filters are in the frame and
      // not in the URL.
      const subscribe = asFrame(requested)
      opened.send(
        encodeFrame(
          bearer === null ? { type: 'subscribe', ...subscribe } : { type: 'auth', token: bearer, ...subscribe },
        ),
      )
    }
    opened.onmessage = ({ data }) => {
      lastReceivedAt = environment.now()
      timers.probe()
      receive(data)
    }
    opened.onclose = () => disconnect(null)
  }

  function startHandshake() {
    requested = wanted
    confirmed = false
    timers.handshake()
    timers.handshake = environment.later(() => disconnect('The control plane did not respond in time.'), HANDSHAKE_MS)
  }

  function receive(data: unknown) {
    const frame = parseFrame(data)
    switch (frame.kind) {
      case 'events':
        if (liveSince !== null && frame.events.length > 0) options.onFrames(frame.events)
        return
      case 'subscribed':
        confirm()
        return
      case 'error':
        reject(frame.error)
        return
      case 'ignored':
        return
    }
  }

  function confirm() {
    confirmed = true
    timers.handshake()
    const isNew = liveSince === null
    if (isNew) {
      liveSince = environment.now()
      everLive = true
      disconnectedAt = rejection = reason = null
      timers.hiddenDisconnect()
      keepAlive()
    }
    publishStatus()
    // Frames arrive from now on, even while a filter change is pending, so earlier events have to be fetched now.
    if (isNew || requested === wanted) options.onSubscribed()
    if (requested !== wanted) requestFilters()
  }

  function reject({ code, error }: ErrorFrame) {
    if (code === 'unauthorized' || code === 'token_expired') {
      // If another tab has stored a newer token, the token listener (`onNewToken`) reconnects with it.
      if (environment.reloadToken(bearer)) return
      rejection =
        bearer === null
          ? 'Authentication required. Sign in with a token.'
          : 'Your token is no longer valid. Sign in again.'
      disconnect(rejection)
    } else if (!confirmed) {
      // A rejected subscription leaves the socket open, but no events would arrive on it.
      if (code === 'forbidden') rejection = 'You do not have permission to do this.'
      disconnect(error)
    }
  }

  /** Handles a socket that was closed or is unusable: closes it and schedules the next attempt. */
  function disconnect(why: string | null) {
    if (closed) return
    if (liveSince !== null) {
      disconnectedAt = environment.now()
      if (disconnectedAt - liveSince >= STABLE_CONNECTION_MS) failures = 0
      timers.hiddenDisconnect()
      timers.hiddenDisconnect = environment.later(() => {
        disconnectedAt = null
        publishStatus()
      }, HIDDEN_DISCONNECT_MS)
    }
    reason = why ?? reason
    dropSocket()
    const backoff = rejection === null ? RECONNECT_BACKOFF : REJECTED_BACKOFF
    const delay = backoffMs(backoff, failures, environment.random())
    failures += 1
    nextAttemptAt = environment.now() + delay
    timers.reconnect = environment.later(connect, delay)
    publishStatus()
  }

  /** Notifies `onStatus` if the status has changed. */
  function publishStatus() {
    const next = currentStatus()
    if (
      status.connection === next.connection &&
      status.detail === next.detail &&
      status.subscribed === next.subscribed
    ) {
      return
    }
    status = next
    options.onStatus(status)
  }

  function currentStatus(): LiveStatus {
    if (liveSince !== null) return { connection: 'live', detail: null, subscribed: true }
    const subscribed = false
    if (!environment.isOnline()) return { connection: 'disconnected', detail: OFFLINE, subscribed }
    if (rejection !== null) return { connection: 'disconnected', detail: rejection, subscribed }
    if (disconnectedAt !== null) return { connection: 'live', detail: null, subscribed }
    if (failures < FAILURES_UNTIL_DISCONNECTED) {
      return { connection: everLive ? 'reconnecting' : 'connecting', detail: reason, subscribed }
    }
    const next = timeOfDay(new Date(nextAttemptAt).toISOString())
    return {
      connection: 'disconnected',
      detail: `${reason ?? 'Cannot reach the control plane.'} Next attempt at ${next}.`,
      subscribed,
    }
  }

  function requestFilters() {
    startHandshake()
    socket?.send(encodeFrame({ type: 'subscribe', ...asFrame(wanted) }))
  }

  function keepAlive() {
    timers.ping = environment.later(() => {
      if (environment.now() - lastReceivedAt >= SILENCE_MS) {
        disconnect('The connection timed out.')
      } else {
        socket?.send(encodeFrame({ type: 'ping' }))
        keepAlive()
      }
    }, PING_MS)
  }

  /** The machine may have slept and the connection be half-open, so probe it. */
  function wake() {
    if (liveSince === null) {
      connectNow()
      return
    }
    socket?.send(encodeFrame({ type: 'ping' }))
    timers.probe()
    timers.probe = environment.later(() => disconnect('The connection timed out.'), PROBE_MS)
  }

  /** Skips the remaining backoff. A handshake in progress continues. */
  function connectNow() {
    if (closed || socket !== null) return
    rejection = null
    connect()
    publishStatus()
  }

  /** The user signed in or out, so the subscription is renewed with the new token. */
  function onNewToken() {
    if (closed || environment.token() === bearer) return
    rejection = null
    disconnect(null)
    failures = 0
    connect()
    publishStatus()
  }

  function dropSocket() {
    for (const cancel of [timers.reconnect, timers.handshake, timers.ping, timers.probe]) cancel()
    liveSince = null
    if (socket === null) return
    socket.onopen = socket.onmessage = socket.onclose = null
    socket.close()
    socket = null
  }

  const unsubscribe = [
    environment.onWake(wake),
    environment.onOffline(() => disconnect(null)),
    environment.onToken(onNewToken),
  ]
  connect()

  return {
    status: () => status,
    retryNow: () => {
      failures = 0
      connectNow()
    },
    replace: () => {
      if (liveSince !== null) disconnect('Events were missed.')
    },
    setFilters: (filters) => {
      if (sameFilters(filters, wanted)) return
      wanted = filters
      if (liveSince !== null && confirmed) requestFilters()
    },
    close: () => {
      closed = true
      timers.hiddenDisconnect()
      dropSocket()
      for (const each of unsubscribe) each()
    },
  }
}

const OFFLINE = 'You are offline. The connection resumes when you are back online.'

const noop = (): void => undefined

/** An empty list lifts a restriction; an absent one would keep it. */
function asFrame({ event_types = [], entity_types = [], entity_ids = [] }: FilterChange): Subscribe {
  return { event_types, entity_types, entity_ids, batch: true }
}

function sameFilters(left: FilterChange, right: FilterChange) {
  return JSON.stringify(asFrame(left)) === JSON.stringify(asFrame(right))
}
