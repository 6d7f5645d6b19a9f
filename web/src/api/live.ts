import { timeOfDay } from '../util/time'
import { api } from '../util/paths'
import type { ErrorFrame, EventFrame, FilterChange } from './contract'
import { withQuery } from './http'
import { hear, say } from './socket-frames'
import { browser, type Socket, type World } from './socket-world'

/** How a page stands with the plane, in the words that it shows. */
export type Connection = 'connecting' | 'live' | 'reconnecting' | 'disconnected'

export interface LiveStatus {
  /**
   * `connecting`: it was never live. `reconnecting`: it was. `disconnected`: given up for now; it goes on trying,
   * slowly, and `detail` says when.
   */
  readonly connection: Connection
  /** Why, in a sentence. */
  readonly detail: string | null
  /** Whether every matching event comes at this moment. A short cut is not worth a word to the reader, but it is one. */
  readonly subscribed: boolean
}

export interface LiveOptions {
  filters: FilterChange
  onFrames(frames: readonly EventFrame[]): void
  /** Each time that it is subscribed, also after `setFilters`: from here on nothing is missed. Fetch what came before. */
  onSubscribed(): void
  onStatus(status: LiveStatus): void
  world?: World
}

/** One socket, for as long as a page needs it: it comes back by itself, whatever ends it. */
export interface Live {
  readonly status: () => LiveStatus
  /** Tries at once, if it is not connected. */
  readonly retryNow: () => void
  /** Opens another socket in place of one that is live and has lost events. */
  readonly replace: () => void
  /** Another wish; answered by `onSubscribed`. A list that is not named lifts its restriction. */
  readonly setFilters: (filters: FilterChange) => void
  readonly close: () => void
}

/** Waits before a try: at most the first, doubled each time, at most the second. Chance spreads many pages. */
const FIRST_WAIT_MS = 500
const LONGEST_WAIT_MS = 30_000
/** Whoever was live for so long begins to count its failures afresh. */
const STEADY_MS = 10_000
/** After so many failures in a row the reader is told that it does not work. */
const FAILURES_UNTIL_DISCONNECTED = 6
/** A cut that is mended so soon is not shown: sockets end every two hours in any case. */
const UNSEEN_CUT_MS = 2_000
const PING_MS = 45_000
const SILENCE_MS = 90_000
/** From the first packet to `subscribed`. */
const HANDSHAKE_MS = 15_000
/** A socket that looks alive after a sleep has so long to prove it. */
const PROBE_MS = 5_000

/**
 * Opens a socket and keeps it open.
 *
 * **Invariant:** frames come only between an `onSubscribed` and the next cut, and every cut is followed by an
 * `onSubscribed` before the next frame. Who fetches then has missed nothing.
 */
export function openLive(options: LiveOptions): Live {
  const world = options.world ?? browser
  let wanted = options.filters
  /** The filters that the plane was last asked for, and whether it has said yes. */
  let asked = wanted
  let answered = false
  let socket: Socket | null = null
  let bearer: string | null = null
  let liveSince: number | null = null
  let everLive = false
  let heardAt = 0
  /** When it was last live, until the reader is told. */
  let cutAt: number | null = null
  let failures = 0
  let nextTryAt = 0
  /** Why the plane does not let us in, if it is not for want of an answer. */
  let refusal: string | null = null
  let reason: string | null = null
  let closed = false
  let status: LiveStatus = { connection: 'connecting', detail: null, subscribed: false }
  const timers = { again: idle, deadline: idle, ping: idle, probe: idle, unseen: idle }

  function connect() {
    drop()
    if (!world.isOnline()) {
      tell()
      return
    }
    const mine = world.socket(withQuery(api.socket, asQuery(wanted)))
    socket = mine
    expectAnswer()
    mine.onopen = () => {
      bearer = world.token()
      // The filters are in the address, so that being known is being subscribed. A plane that asks nobody has let us
      // in already, and only has to say so.
      mine.send(say(bearer === null ? { type: 'subscribe' } : { type: 'auth', token: bearer }))
    }
    mine.onmessage = ({ data }) => {
      heardAt = world.now()
      timers.probe()
      receive(data)
    }
    mine.onclose = () => lose(null)
  }

  function expectAnswer() {
    asked = wanted
    answered = false
    timers.deadline()
    timers.deadline = world.later(() => lose('The plane did not answer in time.'), HANDSHAKE_MS)
  }

  function receive(data: unknown) {
    const heard = hear(data)
    switch (heard.kind) {
      case 'events':
        if (liveSince !== null && heard.events.length > 0) options.onFrames(heard.events)
        return
      case 'subscribed':
        confirmed()
        return
      case 'error':
        refused(heard.error)
        return
      case 'nothing':
        return
    }
  }

  function confirmed() {
    answered = true
    timers.deadline()
    const isNew = liveSince === null
    if (isNew) {
      liveSince = world.now()
      everLive = true
      cutAt = refusal = reason = null
      timers.unseen()
      keepAlive()
    }
    tell()
    // Frames come from now on, whatever else is asked for: what came before has to be fetched.
    if (isNew || asked === wanted) options.onSubscribed()
    if (asked !== wanted) ask()
  }

  function refused({ code, error }: ErrorFrame) {
    if (code === 'unauthorized' || code === 'token_expired') {
      // Whoever has another token tells everybody, us included: `newToken` goes on with it.
      if (world.renew(bearer)) return
      refusal =
        bearer === null
          ? 'The plane asks who you are. Sign in with a token.'
          : 'Your token is no longer valid. Sign in again.'
      lose(refusal)
    } else if (!answered) {
      // A wish that was not granted leaves the socket open, but nothing would ever come of it.
      if (code === 'forbidden') refusal = 'Your role does not allow this.'
      lose(error)
    }
  }

  /** The socket has ended, or is of no use. */
  function lose(why: string | null) {
    if (closed) return
    if (liveSince !== null) {
      cutAt = world.now()
      if (cutAt - liveSince >= STEADY_MS) failures = 0
      timers.unseen()
      timers.unseen = world.later(() => {
        cutAt = null
        tell()
      }, UNSEEN_CUT_MS)
    }
    reason = why ?? reason
    drop()
    const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** failures)
    const patience = refusal === null ? world.random() * longest : LONGEST_WAIT_MS * (0.5 + world.random() / 2)
    failures += 1
    nextTryAt = world.now() + patience
    timers.again = world.later(connect, patience)
    tell()
  }

  /** Says how it stands, if that has changed. */
  function tell() {
    const next = standing()
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

  function standing(): LiveStatus {
    if (liveSince !== null) return { connection: 'live', detail: null, subscribed: true }
    const subscribed = false
    if (!world.isOnline()) return { connection: 'disconnected', detail: OFFLINE, subscribed }
    if (refusal !== null) return { connection: 'disconnected', detail: refusal, subscribed }
    if (cutAt !== null) return { connection: 'live', detail: null, subscribed }
    if (failures < FAILURES_UNTIL_DISCONNECTED) {
      return { connection: everLive ? 'reconnecting' : 'connecting', detail: reason, subscribed }
    }
    const next = timeOfDay(new Date(nextTryAt).toISOString())
    return {
      connection: 'disconnected',
      detail: `${reason ?? 'The plane cannot be reached.'} Next try at ${next}.`,
      subscribed,
    }
  }

  function ask() {
    expectAnswer()
    // An empty list lifts a restriction; one that is absent would leave it as it was.
    const { event_types = [], entity_types = [], entity_ids = [] } = wanted
    socket?.send(say({ type: 'subscribe', event_types, entity_types, entity_ids, batch: true }))
  }

  function keepAlive() {
    timers.ping = world.later(() => {
      if (world.now() - heardAt >= SILENCE_MS) {
        lose('The plane fell silent.')
      } else {
        socket?.send(say({ type: 'ping' }))
        keepAlive()
      }
    }, PING_MS)
  }

  /** The machine may have slept, and the socket died without a word. */
  function wake() {
    if (liveSince === null) {
      tryNow()
      return
    }
    socket?.send(say({ type: 'ping' }))
    timers.probe()
    timers.probe = world.later(() => lose('The plane fell silent.'), PROBE_MS)
  }

  /** No need to wait any longer. A handshake that is under way goes on. */
  function tryNow() {
    if (closed || socket !== null) return
    refusal = null
    connect()
    tell()
  }

  /** Somebody signed in or out: what comes from now on is for them. */
  function newToken() {
    if (closed || world.token() === bearer) return
    refusal = null
    lose(null)
    failures = 0
    connect()
    tell()
  }

  function drop() {
    for (const cancel of [timers.again, timers.deadline, timers.ping, timers.probe]) cancel()
    liveSince = null
    if (socket === null) return
    socket.onopen = socket.onmessage = socket.onclose = null
    socket.close()
    socket = null
  }

  const forget = [world.onWake(wake), world.onOffline(() => lose(null)), world.onToken(newToken)]
  connect()

  return {
    status: () => status,
    retryNow: () => {
      failures = 0
      tryNow()
    },
    replace: () => {
      if (liveSince !== null) lose('The plane did not tell of everything.')
    },
    setFilters: (filters) => {
      if (sameFilters(filters, wanted)) return
      wanted = filters
      if (liveSince !== null && answered) ask()
    },
    close: () => {
      closed = true
      timers.unseen()
      drop()
      for (const each of forget) each()
    },
  }
}

const OFFLINE = 'This browser is offline. It goes on when it is online again.'

const idle = (): void => undefined

function asQuery(filters: FilterChange) {
  const list = (values: string[] | undefined) =>
    values === undefined || values.length === 0 ? undefined : values.join(',')
  return {
    batch: true,
    event_types: list(filters.event_types),
    entity_types: list(filters.entity_types),
    entity_ids: list(filters.entity_ids),
  }
}

function sameFilters(left: FilterChange, right: FilterChange) {
  return JSON.stringify(asQuery(left)) === JSON.stringify(asQuery(right))
}
