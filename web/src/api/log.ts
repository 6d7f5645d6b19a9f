import { fromFrame, type LogEvent } from '../timeline/event'
import type { EventFrame } from './contract'
import { Refused } from './http'
import { type Live, type LiveStatus, openLive } from './live'
import { readAfter, readBefore, readNewest, readRange } from './log-pages'
import { Partials } from './log-partial'
import { Resume } from './log-resume'
import { extended, folded, type LogView, nothing } from './log-view'
import { browser, type World } from './socket-world'

export type { LogView } from './log-view'

export interface LogOptions {
  world?: World
  /** What is new in the log since it was opened, in order, each event once. */
  onEvents?(events: readonly LogEvent[]): void
  /** Events of other entities that `watch` named. */
  onOthers?(frames: readonly EventFrame[]): void
  /** Something else than the log may have changed unseen: after each subscription, and at each look without one. */
  onLook?(): void
}

/** Follows a log for as long as somebody listens: the first listener opens the socket, the last one closes it. */
export interface LogFollower {
  readonly view: () => LogView
  readonly subscribe: (listener: () => void) => () => void
  readonly loadOlder: () => void
  readonly loadAll: () => void
  /** Tries at once what failed: the socket, the log, older pages. */
  readonly retry: () => void
  /** Has the same socket tell of these tasks and tickets too. */
  readonly watch: (entityIds: readonly string[]) => void
}

/** The end of a log shows no gap: after so long without an event somebody looks. */
const LOOK_MS = 45_000
/** Without a socket it is looked so often; after failures, less and less. */
const POLL_MS = 3_000
const LONGEST_POLL_MS = 30_000

/**
 * Subscribe, then fetch, then apply: the recipe of `docs/protocol.md`.
 *
 * **Invariant:** `events` is the log without a gap and without a repeat, whatever breaks on the way.
 */
export function followLog(sandboxId: string, options: LogOptions = {}): LogFollower {
  const world = options.world ?? browser
  const listeners = new Set<() => void>()
  const partials = new Partials()
  let resume = new Resume<LogEvent>(0)
  /** Applied, and not shown yet: a burst is shown once for each frame that is painted. */
  let fresh: LogEvent[] = []
  let others: readonly string[] = []
  let live: Live | null = null
  let abort = new AbortController()
  /** Whether the newest page is here: what comes before that is not kept, but fetched. */
  let opened = false
  /** Whether frames come. */
  let up = false
  /** Whether the socket was cut since it was last subscribed. */
  let wasCut = false
  /** Ends the fetch that is under way. */
  let fetching: AbortController | null = null
  let behind = false
  let failure: { times: number; mayPass: boolean } | null = null
  let quietSince = 0
  /** The end of the log when a look began for which no frame was the reason, and none has come since. */
  let quietAt: number | null = null
  let wantsAll = false
  let stopTimer = idle
  let stopPaint: (() => void) | null = null
  let view = nothing

  function change(what: Partial<LogView>) {
    view = { ...view, ...what }
    for (const listener of listeners) listener()
  }

  function start() {
    abort = new AbortController()
    live = openLive({ world, filters: filters(), onFrames: hear, onSubscribed: subscribed, onStatus: connected })
    // The first page does not wait for the socket. What comes in between is fetched when that is subscribed.
    look()
  }

  function stop() {
    abort.abort()
    live?.close()
    live = null
    up = wasCut = false
    abandon()
    stopTimer()
    stopPaint?.()
    stopPaint = null
    partials.clear()
    show()
    change({ loadingOlder: false, progress: null, connection: 'connecting', detail: null })
  }

  const filters = () => ({ entity_ids: [sandboxId, ...others] })

  function subscribed() {
    options.onLook?.()
    // What was asked for before may hang on a plane that is gone, and what failed then says nothing of this one. Frames
    // show a gap until the fetch is done, so waiting for either would be a page that says Live and stands still.
    if (wasCut || failure !== null) lookAfresh()
    else look()
    wasCut = false
  }

  function connected({ connection, detail, subscribed }: LiveStatus) {
    change({ connection, detail })
    if (subscribed === up) return
    up = subscribed
    // What the agent writes meanwhile is not told again: half a sentence is worse than none.
    if (!up && partials.clear()) paint()
    if (!up) wasCut = true
    rest()
  }

  function hear(frames: readonly EventFrame[]) {
    const foreign: EventFrame[] = []
    const ready: LogEvent[] = []
    for (const frame of frames) {
      if (frame.entity_id !== sandboxId || frame.entity_type !== 'sandbox') {
        foreign.push(frame)
        continue
      }
      const event = fromFrame(frame)
      quietAt = null
      if (event === null) fleeting(frame)
      else if (opened) ready.push(...resume.take(event.seq, event))
      else behind = true
    }
    apply(ready)
    if (opened && resume.hasGap && fetching === null) look()
    if (foreign.length > 0) options.onOthers?.(foreign)
  }

  function fleeting(frame: EventFrame) {
    if (frame.payload['original_event_type'] === 'agent.partial') {
      if (partials.hear(frame.payload)) paint()
    } else if (view.heartbeatAt === null || frame.timestamp > view.heartbeatAt) {
      change({ heartbeatAt: frame.timestamp })
    }
  }

  function apply(events: readonly LogEvent[]) {
    if (events.length === 0) return
    quietSince = world.now()
    for (const event of events) {
      partials.settle(event)
      fresh.push(event)
    }
    options.onEvents?.(events)
    paint()
  }

  function paint() {
    stopPaint ??= world.paint(() => {
      stopPaint = null
      show()
    })
  }

  function show() {
    const added = fresh
    fresh = []
    change({ ...(added.length > 0 && extended(view, added)), partial: partials.shown })
  }

  /** Fetches whatever the plane has and we do not. One at a time: who asks meanwhile is served by the same run. */
  function look() {
    behind = true
    if (fetching === null && live !== null) void catchUp()
  }

  /** The same, without waiting for a fetch that is under way or for the time after a failure. */
  function lookAfresh() {
    abandon()
    failure = null
    look()
  }

  function abandon() {
    fetching?.abort()
    fetching = null
    quietAt = null
  }

  async function catchUp() {
    const mine = new AbortController()
    const { signal } = mine
    fetching = mine
    stopTimer()
    try {
      while (behind) {
        behind = false
        if (opened) await fetchNewer(signal)
        else await fetchFirst(signal)
        behind ||= resume.hasGap
      }
      failure = null
      quietSince = world.now()
      if (view.error !== null) change({ error: null })
      // The socket is open and tells of nothing: another one will.
      if (quietAt !== null && resume.last > quietAt) live?.replace()
      quietAt = null
    } catch (error) {
      if (signal.aborted) return
      failure = { times: (failure?.times ?? 0) + 1, mayPass: !(error instanceof Refused) || error.mayPass }
      change(opened ? { error } : { error, state: 'failed' })
    }
    // A listener may have ended this run meanwhile.
    if (signal.aborted) return
    fetching = null
    rest()
  }

  async function fetchFirst(signal: AbortSignal) {
    const events = await readNewest(world, sandboxId, signal)
    signal.throwIfAborted()
    resume = new Resume(events.at(-1)?.seq ?? 0)
    opened = true
    // Blocks of a message that is still being written may be finished already.
    for (const event of events) partials.settle(event)
    change({ ...folded(events), partial: partials.shown, state: 'ready', error: null })
    if (wantsAll) loadAll()
  }

  async function fetchNewer(signal: AbortSignal) {
    for (let more = true; more; ) {
      const page = await readAfter(world, sandboxId, resume.last, signal)
      signal.throwIfAborted()
      apply(page.events.flatMap((event) => resume.take(event.seq, event)))
      more = page.hasMore
    }
  }

  /** Sets the clock for the next look. */
  function rest() {
    stopTimer()
    if (live === null || fetching !== null) return
    stopTimer = world.later(() => {
      if (up && failure === null && world.now() < quietSince + LOOK_MS) {
        rest()
        return
      }
      if (!up) options.onLook?.()
      else if (failure === null) quietAt = resume.last
      look()
    }, patience())
  }

  function patience() {
    if (failure !== null && !failure.mayPass) return LONGEST_POLL_MS
    if (failure !== null) {
      return Math.min(LONGEST_POLL_MS, POLL_MS * 2 ** (failure.times - 1)) * (0.5 + world.random() / 2)
    }
    return up ? Math.max(0, quietSince + LOOK_MS - world.now()) : POLL_MS
  }

  function loadOlder() {
    void older((signal) => readBefore(world, sandboxId, view.first, signal))
  }

  function loadAll() {
    wantsAll = true
    if (!opened || view.loadingOlder) return
    const of = view.last
    const here = view.events.length
    void older((signal) =>
      readRange(world, sandboxId, { after: 0, before: view.first }, signal, (loaded) =>
        change({ progress: { loaded: here + loaded, of } }),
      ),
    )
  }

  /** Puts older events before those that are here. */
  async function older(read: (signal: AbortSignal) => Promise<LogEvent[]>) {
    if (live === null || !view.hasOlder || view.loadingOlder) return
    const { signal } = abort
    change({ loadingOlder: true, olderError: null })
    try {
      const events = await read(signal)
      if (signal.aborted) return
      show()
      change({ ...folded(events.concat(view.events)), loadingOlder: false, progress: null })
    } catch (error) {
      if (signal.aborted) return
      // Not again by itself: whoever wants it has a button.
      wantsAll = false
      change({ loadingOlder: false, progress: null, olderError: error })
    }
    if (wantsAll) loadAll()
  }

  return {
    view: () => view,
    subscribe: (listener) => {
      listeners.add(listener)
      if (listeners.size === 1) start()
      return () => {
        listeners.delete(listener)
        if (listeners.size === 0) stop()
      }
    },
    loadOlder,
    loadAll,
    retry: () => {
      live?.retryNow()
      if (!opened && view.state === 'failed') change({ state: 'loading', error: null })
      lookAfresh()
      if (view.olderError !== null) loadOlder()
    },
    watch: (entityIds) => {
      others = entityIds
      live?.setFilters(filters())
    },
  }
}

const idle = (): void => undefined
