import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { LogEvent } from '../timeline/event'
import type { EventFrame } from './contract'
import { allEvents, FakePlane, frame } from './fake-plane'
import { followLog } from './log'

function follow(plane: FakePlane) {
  const received: LogEvent[] = []
  const others: EventFrame[] = []
  let refreshes = 0
  let changes = 0
  const log = followLog('s', {
    environment: plane.environment,
    onEvents: (events) => received.push(...events),
    onOthers: (frames) => others.push(...frames),
    onRefresh: () => (refreshes += 1),
  })
  const close = log.subscribe(() => (changes += 1))
  return { log, received, others, close, refreshes: () => refreshes, changes: () => changes }
}

/** The view holds the end of the log up to its last event, and all of it is folded. */
function expectComplete(plane: FakePlane, view: ReturnType<ReturnType<typeof followLog>['view']>) {
  expect(view.events).toEqual(allEvents(plane).slice(Math.max(0, view.first - 1)))
  expect(view.last).toBe(plane.log.length)
  expect(view.timeline.last).toBe(plane.log.length)
  expect(view.run.last).toBe(plane.log.length)
}

/** Waits until a new socket is subscribed, in small steps, so that timings are measured from that moment. */
async function untilSubscribed(plane: FakePlane) {
  while (plane.socket?.subscribed !== true) await plane.advance(1)
}

const partial = (message: string, block: number, offset: number, text: string, kind = 'text') =>
  frame({
    id: `p-${offset}`,
    seq: null,
    type: 'agent.partial',
    data: { message_id: message, block, kind, offset, text },
    at: '2026-01-01T00:00:00Z',
  })

describe('a followed log', () => {
  it('starts with the newest page and continues with frames', async () => {
    const plane = new FakePlane()
    plane.append(1_000)
    const { log } = follow(plane)
    expect(log.view().state).toBe('loading')
    await plane.advance(100)
    expect(log.view()).toMatchObject({
      state: 'ready',
      first: 801,
      last: 1_000,
      hasOlder: true,
      complete: false,
      connection: 'live',
    })
    plane.append(2)
    plane.paint()
    expectComplete(plane, log.view())
    expect(plane.requests).toHaveLength(2)
  })

  it('shows an empty log and then its first event', async () => {
    const plane = new FakePlane()
    const { log, received } = follow(plane)
    await plane.advance(100)
    expect(log.view()).toMatchObject({ state: 'ready', first: 0, last: 0, hasOlder: false, complete: true })
    plane.append(1)
    await plane.advance(100)
    expect(log.view()).toMatchObject({ first: 1, last: 1, complete: true })
    expect(received.map(({ seq }) => seq)).toEqual([1])
  })

  it('batches a burst into one update per animation frame', async () => {
    const plane = new FakePlane()
    const { log, changes } = follow(plane)
    await plane.advance(100)
    const before = changes()
    for (let times = 0; times < 100; times += 1) plane.append(1)
    expect(log.view().last).toBe(0)
    plane.paint()
    expect(log.view().last).toBe(100)
    expect(changes()).toBe(before + 1)
  })

  it('fetches missing events and keeps frames that arrive meanwhile', async () => {
    const plane = new FakePlane()
    plane.append(3)
    const { log, received } = follow(plane)
    await plane.advance(100)
    plane.framesToDrop = 2
    plane.append(1)
    plane.append(4)
    expect(log.view().last).toBe(3)
    plane.append(1)
    plane.append(1)
    await plane.advance(0)
    expectComplete(plane, log.view())
    expect(received.map(({ seq }) => seq)).toEqual([4, 5, 6, 7, 8, 9, 10])
    expect(plane.requests.at(-1)).toContain('after_seq=3')
  })

  it('fetches a large gap page by page', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.advance(100)
    plane.largestPage = 7
    plane.framesToDrop = 1
    plane.append(50)
    plane.append(1)
    await plane.advance(0)
    expectComplete(plane, log.view())
  })

  it('misses no event that arrives while a page is loading', async () => {
    const plane = new FakePlane()
    plane.latencyMs = 1_000
    plane.append(3)
    const { log } = follow(plane)
    await plane.advance(500)
    plane.append(1)
    await plane.advance(2_600)
    expectComplete(plane, log.view())
    plane.framesToDrop = 1
    plane.append(2)
    await plane.advance(500)
    plane.framesToDrop = 1
    plane.append(2)
    plane.append(1)
    // A frame reveals another gap while the page is loading.
    await plane.advance(500)
    plane.framesToDrop = 1
    plane.append(2)
    plane.append(1)
    await plane.advance(3_000)
    expectComplete(plane, log.view())
  })

  it('misses no event that arrives while the first page is retried', async () => {
    const plane = new FakePlane()
    plane.requestsToFail = 1
    const { log } = follow(plane)
    await plane.advance(100)
    expect(log.view().state).toBe('failed')
    plane.latencyMs = 1_000
    log.retry()
    await plane.advance(500)
    plane.append(1)
    await plane.advance(2_000)
    expectComplete(plane, log.view())
  })

  it('resumes after a disconnect', async () => {
    const plane = new FakePlane()
    plane.append(5)
    const { log, refreshes } = follow(plane)
    await plane.advance(20_000)
    plane.disconnect()
    plane.append(700)
    await plane.advance(1_000)
    expectComplete(plane, log.view())
    expect(log.view().connection).toBe('live')
    expect(refreshes()).toBe(2)
  })

  it('polls while the socket is down and backs off on failures', async () => {
    const plane = new FakePlane()
    const { log, refreshes } = follow(plane)
    await plane.advance(20_000)
    // Requests succeed, sockets do not.
    plane.silent = true
    plane.disconnect()
    const before = refreshes()
    plane.append(2)
    await plane.advance(3_100)
    expectComplete(plane, log.view())
    plane.append(2)
    await plane.advance(3_100)
    expectComplete(plane, log.view())
    expect(refreshes()).toBe(before + 2)
    plane.up = false
    const requests = plane.requests.length
    await plane.advance(120_000)
    expect(plane.requests.length - requests).toBeLessThan(12)
    expect(log.view()).toMatchObject({ state: 'ready', error: { status: 0 } })
    plane.up = true
    plane.append(1)
    await plane.advance(30_000)
    expectComplete(plane, log.view())
    expect(log.view().error).toBeNull()
  })

  it('abandons a request from before the disconnect after resubscribing', async () => {
    const plane = new FakePlane()
    plane.append(3)
    const { log } = follow(plane)
    await plane.advance(20_000)
    // The control plane crashes, and a request sent meanwhile gets no response.
    plane.requestsHang = true
    plane.up = false
    plane.disconnect()
    await plane.advance(3_100)
    plane.requestsHang = false
    plane.up = true
    plane.append(5)
    await untilSubscribed(plane)
    await plane.advance(100)
    expect(log.view().connection).toBe('live')
    expectComplete(plane, log.view())
  })

  it('resets the failure count after resubscribing', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.advance(20_000)
    plane.up = false
    plane.disconnect()
    await plane.advance(120_000)
    plane.up = true
    plane.append(5)
    plane.requestsToFail = 1
    await untilSubscribed(plane)
    await plane.advance(3_000)
    expectComplete(plane, log.view())
  })

  it('abandons a hanging request on a manual retry', async () => {
    const plane = new FakePlane()
    plane.append(3)
    plane.requestsHang = true
    const { log } = follow(plane)
    await plane.advance(5_000)
    expect(log.view().state).toBe('loading')
    plane.requestsHang = false
    log.retry()
    await plane.advance(100)
    expectComplete(plane, log.view())
  })

  it('finds a last event whose frame was lost', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.advance(10_000)
    plane.framesToDrop = 1
    plane.append(1)
    await plane.advance(34_000)
    expect(log.view().last).toBe(0)
    await plane.advance(2_000)
    expectComplete(plane, log.view())
  })

  it('replaces a socket that did not deliver events found by a refresh', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.advance(10_000)
    // It answers pings, but the control plane has lost its subscription.
    if (plane.socket !== undefined) plane.socket.subscribed = false
    plane.append(1)
    await plane.advance(46_000)
    expectComplete(plane, log.view())
    plane.append(1)
    await plane.advance(100)
    expectComplete(plane, log.view())
    expect(log.view().connection).toBe('live')
    expect(plane.sockets).toHaveLength(2)
  })

  it('keeps an idle socket', async () => {
    const plane = new FakePlane()
    follow(plane)
    await plane.advance(600_000)
    plane.append(1)
    await plane.advance(600_000)
    expect(plane.sockets).toHaveLength(1)
  })

  it('does not poll while events arrive', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.advance(100)
    const requests = plane.requests.length
    for (let times = 0; times < 30; times += 1) {
      plane.append(1)
      await plane.advance(10_000)
    }
    expect(plane.requests).toHaveLength(requests)
    expectComplete(plane, log.view())
  })

  it('reports a failed load and retries at once on request', async () => {
    const plane = new FakePlane()
    plane.up = false
    plane.append(2)
    const { log } = follow(plane)
    await plane.advance(10)
    expect(log.view()).toMatchObject({ state: 'failed', error: { code: 'unreachable' } })
    plane.up = true
    log.retry()
    expect(log.view().state).toBe('loading')
    await plane.advance(0)
    expectComplete(plane, log.view())
    expect(log.view()).toMatchObject({ state: 'ready', error: null })
  })

  it('resumes with a new token', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.advance(100)
    plane.accepted = new Set(['new'])
    plane.socket?.onmessage?.({ data: '{"error":"Token expired.","code":"token_expired"}' })
    plane.append(3)
    expect(log.view()).toMatchObject({
      connection: 'disconnected',
      detail: 'Your token is no longer valid. Sign in again.',
    })
    plane.signIn('new')
    await plane.advance(10)
    expectComplete(plane, log.view())
    expect(log.view().connection).toBe('live')
  })

  it('receives task and ticket events on the same socket', async () => {
    const plane = new FakePlane()
    const { log, others } = follow(plane)
    log.watch(['task-1', 'ticket-1'])
    await plane.advance(100)
    plane.broadcast({
      ...frame({ id: 'x', seq: 1, type: 'task.completed', data: {}, at: '' }),
      entity_type: 'task',
      entity_id: 'task-1',
    })
    expect(others).toHaveLength(1)
    expect(log.view().events).toEqual([])
    expect(plane.sockets).toHaveLength(1)
    expect(plane.socket?.sent.at(-1)).toMatchObject({ entity_ids: ['s', 'task-1', 'ticket-1'] })
  })

  it('records heartbeats without adding events', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.advance(100)
    plane.broadcast(frame({ id: 'h', seq: null, type: 'agent.heartbeat', data: {}, at: '2026-01-01T00:00:01Z' }))
    expect(log.view()).toMatchObject({ heartbeatAt: '2026-01-01T00:00:01Z', last: 0 })
  })
})

describe('older events', () => {
  it('are loaded page by page back to the beginning', async () => {
    const plane = new FakePlane()
    plane.append(1_000)
    const { log } = follow(plane)
    await plane.advance(100)
    log.loadOlder()
    log.loadOlder()
    expect(log.view().loadingOlder).toBe(true)
    plane.append(1)
    await plane.advance(0)
    expect(log.view()).toMatchObject({ first: 301, last: 1_001, loadingOlder: false, complete: false })
    expectComplete(plane, log.view())
    log.loadOlder()
    await plane.advance(0)
    expect(log.view()).toMatchObject({ first: 1, complete: true, hasOlder: false })
    expectComplete(plane, log.view())
    const requests = plane.requests.length
    log.loadOlder()
    log.loadAll()
    expect(plane.requests).toHaveLength(requests)
  })

  it('are all loaded with progress, even if requested before the first page', async () => {
    const plane = new FakePlane()
    plane.largestPage = 300
    plane.append(3_000)
    const log = followLog('s', { environment: plane.environment })
    const progress: number[] = []
    log.subscribe(() => {
      const { progress: now } = log.view()
      if (now !== null) progress.push(now.loaded)
    })
    log.loadAll()
    await plane.advance(100)
    expect(log.view()).toMatchObject({ complete: true, first: 1, progress: null, loadingOlder: false })
    expectComplete(plane, log.view())
    expect(progress.length).toBeGreaterThan(3)
    expect(progress).toEqual([...progress].sort((left, right) => left - right))
    expect(progress.at(-1)).toBe(3_000)
  })

  it('are loaded despite a short outage', async () => {
    const plane = new FakePlane()
    plane.append(2_000)
    const { log } = follow(plane)
    await plane.advance(100)
    plane.up = false
    log.loadAll()
    await plane.advance(1_000)
    plane.up = true
    await plane.advance(10_000)
    expect(log.view()).toMatchObject({ complete: true, olderError: null })
    expectComplete(plane, log.view())
  })

  it('report why they could not be loaded and load on retry', async () => {
    const plane = new FakePlane()
    plane.append(300)
    const { log } = follow(plane)
    await plane.advance(100)
    plane.up = false
    log.loadOlder()
    await plane.advance(0)
    expect(log.view()).toMatchObject({ loadingOlder: false, olderError: { code: 'unreachable' }, first: 101 })
    plane.up = true
    log.retry()
    await plane.advance(0)
    expect(log.view()).toMatchObject({ olderError: null, first: 1 })
  })
})

describe('partial text', () => {
  it('grows with its pieces and is removed when the finished text arrives', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.advance(100)
    plane.broadcast(partial('m', 0, 0, 'Hello 🌍'))
    plane.broadcast(partial('m', 0, 0, 'Hello 🌍'))
    plane.broadcast(partial('m', 0, 7, ', how are'), partial('m', 0, 5, ' 🌍, how are you'))
    plane.paint()
    expect(log.view().partial).toEqual({ text: 'Hello 🌍, how are you', thinking: false })
    plane.append(1, 'agent.message', { message_id: 'm' })
    plane.broadcast(partial('m', 0, 20, '?'))
    plane.paint()
    expect(log.view().partial).toBeNull()
    expect(log.view().last).toBe(1)
  })

  it('continues with the next block of the same message', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.advance(100)
    plane.broadcast(partial('m', 0, 0, 'Let me see', 'thinking'))
    plane.paint()
    expect(log.view().partial).toEqual({ text: 'Let me see', thinking: true })
    plane.broadcast(partial('m', 1, 0, 'I see'))
    plane.append(1, 'agent.thinking', { message_id: 'm' })
    plane.paint()
    expect(log.view().partial).toEqual({ text: 'I see', thinking: false })
    plane.append(1, 'agent.interrupted')
    plane.paint()
    expect(log.view().partial).toBeNull()
  })

  it('is removed by its finished text if the client joined mid-message', async () => {
    const plane = new FakePlane()
    // A thinking block of the same message is in the log already, so the text is its second block.
    plane.append(1, 'agent.thinking', { message_id: 'm', content: 'Let me see.' })
    const { log } = follow(plane)
    await plane.advance(100)
    plane.broadcast(partial('m', 1, 0, 'I see'))
    plane.paint()
    expect(log.view().partial).toEqual({ text: 'I see', thinking: false })
    plane.append(1, 'agent.message', { message_id: 'm', content: 'I see.' })
    plane.broadcast(partial('m', 1, 5, '.'))
    plane.paint()
    expect(log.view().partial).toBeNull()
  })

  it('starts with an ellipsis if its beginning was missed, and is cleared on disconnect', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.advance(100)
    plane.broadcast(partial('m', 0, 40, 'of it'))
    plane.paint()
    expect(log.view().partial?.text).toBe('…of it')
    plane.disconnect()
    plane.paint()
    expect(log.view().partial).toBeNull()
  })
})

describe('the last unsubscribe', () => {
  it('releases all resources, and a new subscription resumes', async () => {
    for (const busy of ['at once', 'loading', 'down']) {
      const plane = new FakePlane()
      plane.append(900)
      const { log, close } = follow(plane)
      if (busy !== 'at once') await plane.advance(busy === 'loading' ? 0 : 5_000)
      if (busy === 'down') {
        plane.up = false
        plane.disconnect()
        await plane.advance(4_000)
      }
      log.loadAll()
      plane.append(1)
      close()
      await plane.flush()
      expect(plane.openResources).toMatchObject({ timers: 0, paints: 0, sockets: 0, listeners: 0 })
      const requests = plane.requests.length
      await plane.advance(600_000)
      expect(plane.requests).toHaveLength(requests)
      plane.up = true
      plane.append(20)
      const again = log.subscribe(() => undefined)
      await plane.advance(100)
      expectComplete(plane, log.view())
      log.loadAll()
      await plane.advance(100)
      expect(log.view().complete).toBe(true)
      expectComplete(plane, log.view())
      again()
    }
  })
})

type Step =
  | { kind: 'append'; count: number }
  | { kind: 'advance'; milliseconds: number }
  | {
      kind:
        | 'drop'
        | 'disconnect'
        | 'crash'
        | 'recover'
        | 'duplicate'
        | 'hold'
        | 'deliver'
        | 'sleep'
        | 'older'
        | 'all'
        | 'paint'
        | 'expire'
        | 'slow'
        | 'hang'
    }

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('append' as const), count: fc.integer({ min: 1, max: 9 }) }) },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('advance' as const), milliseconds: fc.integer({ min: 0, max: 4_000 }) }),
  },
  {
    weight: 6,
    arbitrary: fc
      .constantFrom(
        'drop',
        'disconnect',
        'crash',
        'recover',
        'duplicate',
        'hold',
        'deliver',
        'sleep',
        'older',
        'all',
        'paint',
        'expire',
        'slow',
        'hang',
      )
      .map((kind) => ({ kind })),
  },
)

describe('a log', () => {
  it('is eventually complete, without gaps or duplicates, under any sequence of faults', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 60 }),
        fc.integer({ min: 1, max: 12 }),
        fc.nat(30),
        async (steps, largestPage, before) => {
          const plane = new FakePlane()
          plane.largestPage = largestPage
          plane.append(before)
          const { log, received, close } = follow(plane)
          for (const each of steps) {
            await take(plane, log, each)
            const { events } = log.view()
            events.forEach((event, index) => expect(event.seq).toBe((events[0]?.seq ?? 0) + index))
          }
          plane.up = plane.online = true
          plane.holding = plane.duplicating = plane.requestsHang = false
          plane.framesToDrop = plane.latencyMs = 0
          plane.deliver()
          await plane.advance(100_000)
          log.loadAll()
          await plane.advance(10_000)
          expect(log.view().complete).toBe(true)
          expectComplete(plane, log.view())
          expect(new Set(received.map(({ seq }) => seq)).size).toBe(received.length)
          expect(log.view().connection).toBe('live')
          close()
          await plane.flush()
          expect(plane.openResources).toEqual({ timers: 0, paints: 0, sockets: 0, listeners: 0 })
        },
      ),
      { numRuns: 150 },
    )
  }, 60_000)
})

async function take(plane: FakePlane, log: ReturnType<typeof followLog>, each: Step) {
  switch (each.kind) {
    case 'append':
      plane.append(each.count)
      return
    case 'advance':
      await plane.advance(each.milliseconds)
      return
    case 'drop':
      plane.framesToDrop = 2
      return
    case 'disconnect':
      plane.disconnect()
      return
    case 'crash':
      plane.up = false
      plane.disconnect()
      return
    case 'recover':
      plane.up = true
      return
    case 'duplicate':
      plane.duplicating = !plane.duplicating
      return
    case 'hold':
      plane.holding = true
      return
    case 'deliver':
      plane.holding = false
      plane.deliver()
      return
    case 'sleep':
      // The clock jumps, and the socket is dead without having been closed.
      for (const socket of plane.sockets) {
        socket.unresponsive = true
        socket.subscribed = false
      }
      plane.now += 600_000
      plane.wakeUp()
      return
    case 'older':
      log.loadOlder()
      return
    case 'all':
      log.loadAll()
      return
    case 'paint':
      plane.paint()
      return
    case 'slow':
      plane.latencyMs = plane.latencyMs === 0 ? 400 : 0
      return
    case 'hang':
      plane.requestsHang = !plane.requestsHang
      return
    case 'expire':
      plane.accepted = new Set([`token-${plane.now}`])
      plane.storedToken = `token-${plane.now}`
      plane.socket?.onmessage?.({ data: '{"error":"Token expired.","code":"token_expired"}' })
      return
  }
}
