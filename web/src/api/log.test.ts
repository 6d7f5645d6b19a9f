import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { LogEvent } from '../timeline/event'
import type { EventFrame } from './contract'
import { FakePlane, frame, whole } from './fake-plane'
import { followLog } from './log'

function follow(plane: FakePlane) {
  const told: LogEvent[] = []
  const others: EventFrame[] = []
  let looks = 0
  let changes = 0
  const log = followLog('s', {
    world: plane.world,
    onEvents: (events) => told.push(...events),
    onOthers: (frames) => others.push(...frames),
    onLook: () => (looks += 1),
  })
  const close = log.subscribe(() => (changes += 1))
  return { log, told, others, close, looks: () => looks, changes: () => changes }
}

/** What is shown is the end of the log, up to its last event, and everything is folded. */
function expectComplete(plane: FakePlane, view: ReturnType<ReturnType<typeof followLog>['view']>) {
  expect(view.events).toEqual(whole(plane).slice(Math.max(0, view.first - 1)))
  expect(view.last).toBe(plane.log.length)
  expect(view.timeline.last).toBe(plane.log.length)
  expect(view.run.last).toBe(plane.log.length)
}

/** Waits until a new socket is subscribed, in small steps: what happens then is measured from there. */
async function untilSubscribed(plane: FakePlane) {
  while (plane.socket?.subscribed !== true) await plane.pass(1)
}

const partial = (message: string, block: number, offset: number, text: string, kind = 'text') =>
  frame({ id: `p-${offset}`, seq: null, type: 'agent.partial', data: { message_id: message, block, kind, offset, text }, at: '2026-01-01T00:00:00Z' })

describe('a log that is followed', () => {
  it('begins with the newest page and goes on with frames', async () => {
    const plane = new FakePlane()
    plane.append(1_000)
    const { log } = follow(plane)
    expect(log.view().state).toBe('loading')
    await plane.pass(100)
    expect(log.view()).toMatchObject({ state: 'ready', first: 801, last: 1_000, hasOlder: true, whole: false, connection: 'live' })
    plane.append(2)
    plane.paint()
    expectComplete(plane, log.view())
    expect(plane.requests).toHaveLength(2)
  })

  it('shows an empty log, and its first event when it comes', async () => {
    const plane = new FakePlane()
    const { log, told } = follow(plane)
    await plane.pass(100)
    expect(log.view()).toMatchObject({ state: 'ready', first: 0, last: 0, hasOlder: false, whole: true })
    plane.append(1)
    await plane.pass(100)
    expect(log.view()).toMatchObject({ first: 1, last: 1, whole: true })
    expect(told.map(({ seq }) => seq)).toEqual([1])
  })

  it('shows a burst once for each frame that is painted', async () => {
    const plane = new FakePlane()
    const { log, changes } = follow(plane)
    await plane.pass(100)
    const before = changes()
    for (let times = 0; times < 100; times += 1) plane.append(1)
    expect(log.view().last).toBe(0)
    plane.paint()
    expect(log.view().last).toBe(100)
    expect(changes()).toBe(before + 1)
  })

  it('fetches what a frame shows to be missing, and keeps the frames that come meanwhile', async () => {
    const plane = new FakePlane()
    plane.append(3)
    const { log, told } = follow(plane)
    await plane.pass(100)
    plane.losing = 2
    plane.append(1)
    plane.append(4)
    expect(log.view().last).toBe(3)
    plane.append(1)
    plane.append(1)
    await plane.pass(0)
    expectComplete(plane, log.view())
    expect(told.map(({ seq }) => seq)).toEqual([4, 5, 6, 7, 8, 9, 10])
    expect(plane.requests.at(-1)).toContain('after_seq=3')
  })

  it('asks for a large gap page by page', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.pass(100)
    plane.largestPage = 7
    plane.losing = 1
    plane.append(50)
    plane.append(1)
    await plane.pass(0)
    expectComplete(plane, log.view())
  })

  it('misses nothing that comes while a page is on its way', async () => {
    const plane = new FakePlane()
    plane.slowness = 1_000
    plane.append(3)
    const { log } = follow(plane)
    await plane.pass(500)
    plane.append(1)
    await plane.pass(2_600)
    expectComplete(plane, log.view())
    plane.losing = 1
    plane.append(2)
    await plane.pass(500)
    plane.losing = 1
    plane.append(2)
    plane.append(1)
    // The page that is asked for now leads to a frame that shows another gap.
    await plane.pass(500)
    plane.losing = 1
    plane.append(2)
    plane.append(1)
    await plane.pass(3_000)
    expectComplete(plane, log.view())
  })

  it('misses nothing that comes while the first page is asked for again', async () => {
    const plane = new FakePlane()
    plane.failing = 1
    const { log } = follow(plane)
    await plane.pass(100)
    expect(log.view().state).toBe('failed')
    plane.slowness = 1_000
    log.retry()
    await plane.pass(500)
    plane.append(1)
    await plane.pass(2_000)
    expectComplete(plane, log.view())
  })

  it('goes on after a cut where it was', async () => {
    const plane = new FakePlane()
    plane.append(5)
    const { log, looks } = follow(plane)
    await plane.pass(20_000)
    plane.cut()
    plane.append(700)
    await plane.pass(1_000)
    expectComplete(plane, log.view())
    expect(log.view().connection).toBe('live')
    expect(looks()).toBe(2)
  })

  it('polls while the socket is down, and less often while that fails too', async () => {
    const plane = new FakePlane()
    const { log, looks } = follow(plane)
    await plane.pass(20_000)
    // Requests come through, sockets do not.
    plane.speechless = true
    plane.cut()
    const before = looks()
    plane.append(2)
    await plane.pass(3_100)
    expectComplete(plane, log.view())
    plane.append(2)
    await plane.pass(3_100)
    expectComplete(plane, log.view())
    expect(looks()).toBe(before + 2)
    plane.up = false
    const requests = plane.requests.length
    await plane.pass(120_000)
    expect(plane.requests.length - requests).toBeLessThan(12)
    expect(log.view()).toMatchObject({ state: 'ready', error: { status: 0 } })
    plane.up = true
    plane.append(1)
    await plane.pass(30_000)
    expectComplete(plane, log.view())
    expect(log.view().error).toBeNull()
  })

  it('does not wait for a request of before the cut when it is subscribed again', async () => {
    const plane = new FakePlane()
    plane.append(3)
    const { log } = follow(plane)
    await plane.pass(20_000)
    // The plane dies, and a request that is sent meanwhile is never answered.
    plane.hanging = true
    plane.up = false
    plane.cut()
    await plane.pass(3_100)
    plane.hanging = false
    plane.up = true
    plane.append(5)
    await untilSubscribed(plane)
    await plane.pass(100)
    expect(log.view().connection).toBe('live')
    expectComplete(plane, log.view())
  })

  it('counts failures afresh when it is subscribed again', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.pass(20_000)
    plane.up = false
    plane.cut()
    await plane.pass(120_000)
    plane.up = true
    plane.append(5)
    plane.failing = 1
    await untilSubscribed(plane)
    await plane.pass(3_000)
    expectComplete(plane, log.view())
  })

  it('does not wait for a request that hangs when the reader asks for a retry', async () => {
    const plane = new FakePlane()
    plane.append(3)
    plane.hanging = true
    const { log } = follow(plane)
    await plane.pass(5_000)
    expect(log.view().state).toBe('loading')
    plane.hanging = false
    log.retry()
    await plane.pass(100)
    expectComplete(plane, log.view())
  })

  it('finds a last event that nobody told of', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.pass(10_000)
    plane.losing = 1
    plane.append(1)
    await plane.pass(34_000)
    expect(log.view().last).toBe(0)
    await plane.pass(2_000)
    expectComplete(plane, log.view())
  })

  it('opens another socket when a look finds events that the open one did not tell of', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.pass(10_000)
    // It answers pings, but the plane no longer knows what it is subscribed to.
    if (plane.socket !== undefined) plane.socket.subscribed = false
    plane.append(1)
    await plane.pass(46_000)
    expectComplete(plane, log.view())
    plane.append(1)
    await plane.pass(100)
    expectComplete(plane, log.view())
    expect(log.view().connection).toBe('live')
    expect(plane.sockets).toHaveLength(2)
  })

  it('keeps a socket on which nothing happens', async () => {
    const plane = new FakePlane()
    follow(plane)
    await plane.pass(600_000)
    plane.append(1)
    await plane.pass(600_000)
    expect(plane.sockets).toHaveLength(1)
  })

  it('does not look while events come', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.pass(100)
    const requests = plane.requests.length
    for (let times = 0; times < 30; times += 1) {
      plane.append(1)
      await plane.pass(10_000)
    }
    expect(plane.requests).toHaveLength(requests)
    expectComplete(plane, log.view())
  })

  it('says that it could not be loaded, goes on trying, and tries at once when asked', async () => {
    const plane = new FakePlane()
    plane.up = false
    plane.append(2)
    const { log } = follow(plane)
    await plane.pass(10)
    expect(log.view()).toMatchObject({ state: 'failed', error: { code: 'unreachable' } })
    plane.up = true
    log.retry()
    expect(log.view().state).toBe('loading')
    await plane.pass(0)
    expectComplete(plane, log.view())
    expect(log.view()).toMatchObject({ state: 'ready', error: null })
  })

  it('goes on with a new token', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.pass(100)
    plane.accepted = new Set(['new'])
    plane.socket?.onmessage?.({ data: '{"error":"It has ended.","code":"token_expired"}' })
    plane.append(3)
    expect(log.view()).toMatchObject({ connection: 'disconnected', detail: 'Your token is no longer valid. Sign in again.' })
    plane.signIn('new')
    await plane.pass(10)
    expectComplete(plane, log.view())
    expect(log.view().connection).toBe('live')
  })

  it('tells of its task and ticket on the same socket', async () => {
    const plane = new FakePlane()
    const { log, others } = follow(plane)
    log.watch(['task-1', 'ticket-1'])
    await plane.pass(100)
    plane.tell({ ...frame({ id: 'x', seq: 1, type: 'task.completed', data: {}, at: '' }), entity_type: 'task', entity_id: 'task-1' })
    expect(others).toHaveLength(1)
    expect(log.view().events).toEqual([])
    expect(plane.sockets).toHaveLength(1)
    expect(plane.socket?.sent.at(-1)).toMatchObject({ entity_ids: ['s', 'task-1', 'ticket-1'] })
  })

  it('notes signs of life, and no event comes of them', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.pass(100)
    plane.tell(frame({ id: 'h', seq: null, type: 'agent.heartbeat', data: {}, at: '2026-01-01T00:00:01Z' }))
    expect(log.view()).toMatchObject({ heartbeatAt: '2026-01-01T00:00:01Z', last: 0 })
  })
})

describe('older events', () => {
  it('are loaded upward, page by page, to the beginning', async () => {
    const plane = new FakePlane()
    plane.append(1_000)
    const { log } = follow(plane)
    await plane.pass(100)
    log.loadOlder()
    log.loadOlder()
    expect(log.view().loadingOlder).toBe(true)
    plane.append(1)
    await plane.pass(0)
    expect(log.view()).toMatchObject({ first: 301, last: 1_001, loadingOlder: false, whole: false })
    expectComplete(plane, log.view())
    log.loadOlder()
    await plane.pass(0)
    expect(log.view()).toMatchObject({ first: 1, whole: true, hasOlder: false })
    expectComplete(plane, log.view())
    const requests = plane.requests.length
    log.loadOlder()
    log.loadAll()
    expect(plane.requests).toHaveLength(requests)
  })

  it('are loaded whole, with progress, also when that is asked for before anything is here', async () => {
    const plane = new FakePlane()
    plane.largestPage = 300
    plane.append(3_000)
    const log = followLog('s', { world: plane.world })
    const progress: number[] = []
    log.subscribe(() => {
      const { progress: now } = log.view()
      if (now !== null) progress.push(now.loaded)
    })
    log.loadAll()
    await plane.pass(100)
    expect(log.view()).toMatchObject({ whole: true, first: 1, progress: null, loadingOlder: false })
    expectComplete(plane, log.view())
    expect(progress.length).toBeGreaterThan(3)
    expect(progress).toEqual([...progress].sort((left, right) => left - right))
    expect(progress.at(-1)).toBe(3_000)
  })

  it('survive a plane that is away for a moment', async () => {
    const plane = new FakePlane()
    plane.append(2_000)
    const { log } = follow(plane)
    await plane.pass(100)
    plane.up = false
    log.loadAll()
    await plane.pass(1_000)
    plane.up = true
    await plane.pass(10_000)
    expect(log.view()).toMatchObject({ whole: true, olderError: null })
    expectComplete(plane, log.view())
  })

  it('say why they could not be loaded, and are loaded when asked again', async () => {
    const plane = new FakePlane()
    plane.append(300)
    const { log } = follow(plane)
    await plane.pass(100)
    plane.up = false
    log.loadOlder()
    await plane.pass(0)
    expect(log.view()).toMatchObject({ loadingOlder: false, olderError: { code: 'unreachable' }, first: 101 })
    plane.up = true
    log.retry()
    await plane.pass(0)
    expect(log.view()).toMatchObject({ olderError: null, first: 1 })
  })
})

describe('text that is being written', () => {
  it('grows with its pieces, twice or not, and goes when the finished text comes', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.pass(100)
    plane.tell(partial('m', 0, 0, 'Hello 🌍'))
    plane.tell(partial('m', 0, 0, 'Hello 🌍'))
    plane.tell(partial('m', 0, 7, ', how are'), partial('m', 0, 5, ' 🌍, how are you'))
    plane.paint()
    expect(log.view().partial).toEqual({ text: 'Hello 🌍, how are you', thinking: false })
    plane.append(1, 'agent.message', { message_id: 'm' })
    plane.tell(partial('m', 0, 20, '?'))
    plane.paint()
    expect(log.view().partial).toBeNull()
    expect(log.view().last).toBe(1)
  })

  it('goes on with the next block of the same message', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.pass(100)
    plane.tell(partial('m', 0, 0, 'Let me see', 'thinking'))
    plane.paint()
    expect(log.view().partial).toEqual({ text: 'Let me see', thinking: true })
    plane.tell(partial('m', 1, 0, 'I see'))
    plane.append(1, 'agent.thinking', { message_id: 'm' })
    plane.paint()
    expect(log.view().partial).toEqual({ text: 'I see', thinking: false })
    plane.append(1, 'agent.interrupted')
    plane.paint()
    expect(log.view().partial).toBeNull()
  })

  it('goes when its finished text comes, also for who came in the middle of the message', async () => {
    const plane = new FakePlane()
    // A thought of the same message is in the log already: the text is its second block.
    plane.append(1, 'agent.thinking', { message_id: 'm', content: 'Let me see.' })
    const { log } = follow(plane)
    await plane.pass(100)
    plane.tell(partial('m', 1, 0, 'I see'))
    plane.paint()
    expect(log.view().partial).toEqual({ text: 'I see', thinking: false })
    plane.append(1, 'agent.message', { message_id: 'm', content: 'I see.' })
    plane.tell(partial('m', 1, 5, '.'))
    plane.paint()
    expect(log.view().partial).toBeNull()
  })

  it('shows what is left of a text whose beginning was missed, and nothing after a cut', async () => {
    const plane = new FakePlane()
    const { log } = follow(plane)
    await plane.pass(100)
    plane.tell(partial('m', 0, 40, 'of it'))
    plane.paint()
    expect(log.view().partial?.text).toBe('…of it')
    plane.cut()
    plane.paint()
    expect(log.view().partial).toBeNull()
  })
})

describe('whoever stops listening', () => {
  it('leaves nothing behind, and goes on later where it was', async () => {
    for (const busy of ['at once', 'loading', 'down']) {
      const plane = new FakePlane()
      plane.append(900)
      const { log, close } = follow(plane)
      if (busy !== 'at once') await plane.pass(busy === 'loading' ? 0 : 5_000)
      if (busy === 'down') {
        plane.up = false
        plane.cut()
        await plane.pass(4_000)
      }
      log.loadAll()
      plane.append(1)
      close()
      await plane.settle()
      expect(plane.leftovers).toMatchObject({ timers: 0, paints: 0, sockets: 0, listeners: 0 })
      const requests = plane.requests.length
      await plane.pass(600_000)
      expect(plane.requests).toHaveLength(requests)
      plane.up = true
      plane.append(20)
      const again = log.subscribe(() => undefined)
      await plane.pass(100)
      expectComplete(plane, log.view())
      log.loadAll()
      await plane.pass(100)
      expect(log.view().whole).toBe(true)
      expectComplete(plane, log.view())
      again()
    }
  })
})

type Step =
  | { kind: 'append'; count: number }
  | { kind: 'pass'; milliseconds: number }
  | { kind: 'lose' | 'cut' | 'die' | 'rise' | 'double' | 'hold' | 'deliver' | 'sleep' | 'older' | 'all' | 'paint' | 'expire' | 'slow' | 'hang' }

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('append' as const), count: fc.integer({ min: 1, max: 9 }) }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('pass' as const), milliseconds: fc.integer({ min: 0, max: 4_000 }) }) },
  {
    weight: 6,
    arbitrary: fc.constantFrom('lose', 'cut', 'die', 'rise', 'double', 'hold', 'deliver', 'sleep', 'older', 'all', 'paint', 'expire', 'slow', 'hang').map((kind) => ({ kind })),
  },
)

describe('a log', () => {
  it('is complete in the end, without a gap and without a repeat, whatever happens on the way', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), fc.integer({ min: 1, max: 12 }), fc.nat(30), async (steps, largestPage, before) => {
        const plane = new FakePlane()
        plane.largestPage = largestPage
        plane.append(before)
        const { log, told, close } = follow(plane)
        for (const each of steps) {
          await take(plane, log, each)
          const { events } = log.view()
          events.forEach((event, index) => expect(event.seq).toBe((events[0]?.seq ?? 0) + index))
        }
        plane.up = plane.online = true
        plane.holding = plane.doubling = plane.hanging = false
        plane.losing = plane.slowness = 0
        plane.deliver()
        await plane.pass(100_000)
        log.loadAll()
        await plane.pass(10_000)
        expect(log.view().whole).toBe(true)
        expectComplete(plane, log.view())
        expect(new Set(told.map(({ seq }) => seq)).size).toBe(told.length)
        expect(log.view().connection).toBe('live')
        close()
        await plane.settle()
        expect(plane.leftovers).toEqual({ timers: 0, paints: 0, sockets: 0, listeners: 0 })
      }),
      { numRuns: 150 },
    )
  }, 60_000)
})

async function take(plane: FakePlane, log: ReturnType<typeof followLog>, each: Step) {
  switch (each.kind) {
    case 'append':
      plane.append(each.count)
      return
    case 'pass':
      await plane.pass(each.milliseconds)
      return
    case 'lose':
      plane.losing = 2
      return
    case 'cut':
      plane.cut()
      return
    case 'die':
      plane.up = false
      plane.cut()
      return
    case 'rise':
      plane.up = true
      return
    case 'double':
      plane.doubling = !plane.doubling
      return
    case 'hold':
      plane.holding = true
      return
    case 'deliver':
      plane.holding = false
      plane.deliver()
      return
    case 'sleep':
      // The clock jumps, and nobody was told that the socket has died.
      for (const socket of plane.sockets) {
        socket.deaf = true
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
      plane.slowness = plane.slowness === 0 ? 400 : 0
      return
    case 'hang':
      plane.hanging = !plane.hanging
      return
    case 'expire':
      plane.accepted = new Set([`token-${plane.now}`])
      plane.kept = `token-${plane.now}`
      plane.socket?.onmessage?.({ data: '{"error":"It has ended.","code":"token_expired"}' })
      return
  }
}
