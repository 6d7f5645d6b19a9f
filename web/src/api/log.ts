import { fromFrame, type LogEvent } from '../timeline/event'
import { type Backoff, backoffMs } from '../util/backoff'
import type { EventFrame, KnownEventType } from './contract'
import { ApiError } from './http'
import { type Live, type LiveStatus, openLive } from './live'
import { readAfter, readBefore, readNewest, readRange } from './log-pages'
import { PartialTexts } from './partial-text'
import { ReorderBuffer } from './reorder-buffer'
import { extended, folded, type LogView, emptyView } from './log-view'
import { browserEnvironment, type Environment } from './environment'

export type { LogView } from './log-view'

export interface LogOptions {
  environment?: Environment
  /** Events appended to the log since it was opened, in order, each once. */
  onEvents?(events: readonly LogEvent[]): void
  /** Events of the other entities passed to `watch`. */
  onOthers?(frames: readonly EventFrame[]): void
  /** Other state may have changed unseen: called after each subscription and at each poll without a socket. */
  onRefresh?(): void
}

/** Follows a log while it has subscribers: the first one opens the socket, the last one closes it. */
export interface LogFollower {
  readonly view: () => LogView
  readonly subscribe: (listener: () => void) => () => void
  readonly loadOlder: () => void
  readonly loadAll: () => void
  /** Immediately retries what failed: the socket, the log, older pages. */
  readonly retry: () => void
  /** Subscribes the same socket to these tasks and tickets too. */
  readonly watch: (entityIds: readonly string[]) => void
}

/** A lost last frame leaves no visible gap, so the log is polled after this long without an event. */
const IDLE_POLL_MS = 45_000
const PARTIAL: KnownEventType = 'agent.partial'
/** Poll interval without a socket; grows with failures. */
const POLL_MS = 3_000
const MAX_POLL_MS = 30_000
const POLL_BACKOFF: Backoff = { initialMs: POLL_MS, maxMs: MAX_POLL_MS }

/**
 * Subscribe, then fetch, then apply, as `docs/protocol.md` describes.
 *
 * **Invariant:** `events` is the log without gaps or duplicates, whatever fails on the way.
 */
export function followLog(sandboxId: string, options: LogOptions = {}): LogFollower {
  const environment = options.environment ?? browserEnvironment
  const listeners = new Set<() => void>()
  const partials = new PartialTexts()
  let resume = new ReorderBuffer<LogEvent>(0)
  /** Applied but not shown yet: a burst is shown once per animation frame. */
  let unpainted: LogEvent[] = []
  let others: readonly string[] = []
  let live: Live | null = null
  let abort = new AbortController()
  /** Whether the newest page is loaded. Events that arrive before it are fetched, not kept. */
  let opened = false
  /** Whether the socket is subscribed. */
  let up = false
  /** Whether the socket was disconnected since the last subscription. */
  let wasDisconnected = false
  /** Aborts the fetch in progress. */
  let fetching: AbortController | null = null
  let behind = false
  let failure: { times: number; isRetryable: boolean } | null = null
  let idleSince = 0
  /** End of the log at the start of an idle poll; `null` once a frame arrives. Detects a socket that delivers nothing. */
  let idlePollSeq: number | null = null
  let wantsAll = false
  let stopTimer = noop
  let stopPaint: (() => void) | null = null
  let view = emptyView

  function change(what: Partial<LogView>) {
    view = { ...view, ...what }
    for (const listener of listeners) listener()
  }

  function start() {
    abort = new AbortController()
    live = openLive({
      environment,
      filters: filters(),
      onFrames: receive,
      onSubscribed: subscribed,
      onStatus: statusChanged,
    })
    // The first page does not wait for the socket. Events in between are fetched after the subscription.
    refresh()
  }

  function stop() {
    abort.abort()
    live?.close()
    live = null
    up = wasDisconnected = false
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
    options.onRefresh?.()
    // An earlier request may hang on a crashed control plane, and earlier failures say nothing about this one. Frames
    // show a gap until the fetch is done, so waiting for either would leave a page that says Live but does not update.
    if (wasDisconnected || failure !== null) refreshNow()
    else refresh()
    wasDisconnected = false
  }

  function statusChanged({ connection, detail, subscribed }: LiveStatus) {
    change({ connection, detail })
    if (subscribed === up) return
    up = subscribed
    // Partial text is not sent again, and half a sentence is worse than none.
    if (!up && partials.clear()) paint()
    if (!up) wasDisconnected = true
    schedulePoll()
  }

  function receive(frames: readonly EventFrame[]) {
    const foreign: EventFrame[] = []
    const ready: LogEvent[] = []
    for (const frame of frames) {
      if (frame.entity_id !== sandboxId || frame.entity_type !== 'sandbox') {
        foreign.push(frame)
        continue
      }
      const event = fromFrame(frame)
      idlePollSeq = null
      if (event === null) receiveEphemeral(frame)
      else if (opened) ready.push(...resume.insert(event.seq, event))
      else behind = true
    }
    apply(ready)
    if (opened && resume.hasGap && fetching === null) refresh()
    if (foreign.length > 0) options.onOthers?.(foreign)
  }

  function receiveEphemeral(frame: EventFrame) {
    if (frame.payload['original_event_type'] === PARTIAL) {
      if (partials.add(frame.payload)) paint()
    } else if (view.heartbeatAt === null || frame.timestamp > view.heartbeatAt) {
      change({ heartbeatAt: frame.timestamp })
    }
  }

  function apply(events: readonly LogEvent[]) {
    if (events.length === 0) return
    idleSince = environment.now()
    for (const event of events) {
      partials.complete(event)
      unpainted.push(event)
    }
    options.onEvents?.(events)
    paint()
  }

  function paint() {
    stopPaint ??= environment.paint(() => {
      stopPaint = null
      show()
    })
  }

  function show() {
    const added = unpainted
    unpainted = []
    change({ ...(added.length > 0 && extended(view, added)), partial: partials.shown })
  }

  /** Fetches the events that are missing here. Runs once at a time: concurrent calls share the run in progress. */
  function refresh() {
    behind = true
    if (fetching === null && live !== null) void catchUp()
  }

  /** Refreshes without waiting for a fetch in progress or for a backoff delay. */
  function refreshNow() {
    abandon()
    failure = null
    refresh()
  }

  function abandon() {
    fetching?.abort()
    fetching = null
    idlePollSeq = null
  }

  async function catchUp() {
    const controller = new AbortController()
    const { signal } = controller
    fetching = controller
    stopTimer()
    try {
      while (behind) {
        behind = false
        if (opened) await fetchNewer(signal)
        else await fetchFirst(signal)
        behind ||= resume.hasGap
      }
      failure = null
      idleSince = environment.now()
      if (view.error !== null) change({ error: null })
      // The open socket delivered none of these events, so replace it.
      if (idlePollSeq !== null && resume.last > idlePollSeq) live?.replace()
      idlePollSeq = null
    } catch (error) {
      if (signal.aborted) return
      failure = { times: (failure?.times ?? 0) + 1, isRetryable: !(error instanceof ApiError) || error.isRetryable }
      change(opened ? { error } : { error, state: 'failed' })
    }
    // A listener may have aborted this run meanwhile.
    if (signal.aborted) return
    fetching = null
    schedulePoll()
  }

  async function fetchFirst(signal: AbortSignal) {
    const events = await readNewest(environment, sandboxId, signal)
    signal.throwIfAborted()
    resume = new ReorderBuffer(events.at(-1)?.seq ?? 0)
    opened = true
    // Blocks of a message that is still being generated may be finished already.
    for (const event of events) partials.complete(event)
    change({ ...folded(events), partial: partials.shown, state: 'ready', error: null })
    if (wantsAll) loadAll()
  }

  async function fetchNewer(signal: AbortSignal) {
    for (let more = true; more;) {
      const page = await readAfter(environment, sandboxId, resume.last, signal)
      signal.throwIfAborted()
      apply(page.events.flatMap((event) => resume.insert(event.seq, event)))
      more = page.hasMore
    }
  }

  function schedulePoll() {
    stopTimer()
    if (live === null || fetching !== null) return
    stopTimer = environment.later(() => {
      if (up && failure === null && environment.now() < idleSince + IDLE_POLL_MS) {
        schedulePoll()
        return
      }
      if (!up) options.onRefresh?.()
      else if (failure === null) idlePollSeq = resume.last
      refresh()
    }, pollDelay())
  }

  function pollDelay() {
    if (failure !== null && !failure.isRetryable) return MAX_POLL_MS
    if (failure !== null) return backoffMs(POLL_BACKOFF, failure.times - 1, environment.random())
    return up ? Math.max(0, idleSince + IDLE_POLL_MS - environment.now()) : POLL_MS
  }

  function loadOlder() {
    void older((signal) => readBefore(environment, sandboxId, view.first, signal))
  }

  function loadAll() {
    wantsAll = true
    if (!opened || view.loadingOlder) return
    const of = view.last
    const here = view.events.length
    void older((signal) =>
      readRange(environment, sandboxId, { after: 0, before: view.first }, signal, (loaded) =>
        change({ progress: { loaded: here + loaded, of } }),
      ),
    )
  }

  /** Prepends older events. */
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
      // No automatic retry: the page shows a button.
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
      refreshNow()
      if (view.olderError !== null) loadOlder()
    },
    watch: (entityIds) => {
      others = entityIds
      live?.setFilters(filters())
    },
  }
}

const noop = (): void => undefined
