import { describe, expect, it } from 'vitest'
import type { EventFrame, FilterChange } from './contract'
import { FakePlane, frame } from './fake-plane'
import { openLive } from './live'

const SUBSCRIBE = { event_types: [], entity_types: [], entity_ids: ['s'], batch: true }

function open(plane: FakePlane, filters: FilterChange = { entity_ids: ['s'] }) {
  const frames: EventFrame[] = []
  const connections: string[] = []
  let subscriptions = 0
  const live = openLive({
    environment: plane.environment,
    filters,
    onFrames: (more) => frames.push(...more),
    onSubscribed: () => (subscriptions += 1),
    onStatus: ({ connection }) => {
      if (connections.at(-1) !== connection) connections.push(connection)
    },
  })
  return { live, frames, connections, subscriptions: () => subscriptions }
}

describe('a socket', () => {
  it('authenticates in the first frame and is subscribed with it', async () => {
    const plane = new FakePlane()
    const { live, connections, subscriptions } = open(plane)
    await plane.flush()
    expect(plane.socket?.sent).toEqual([{ type: 'auth', token: 'good', ...SUBSCRIBE }])
    expect(plane.socket?.url).toBe('/api/v1/ws/events')
    expect(connections).toEqual(['live'])
    expect(subscriptions()).toBe(1)
    live.close()
  })

  it('subscribes without a token when anonymous access is allowed', async () => {
    const plane = new FakePlane()
    plane.token = null
    plane.accepted = new Set([null])
    const { live } = open(plane)
    await plane.flush()
    expect(plane.socket?.sent).toEqual([{ type: 'subscribe', ...SUBSCRIBE }])
    expect(live.status().connection).toBe('live')
  })

  it('receives single and batched frames and ignores unknown ones', async () => {
    const plane = new FakePlane()
    const { frames } = open(plane)
    await plane.flush()
    plane.append(1)
    plane.append(3)
    for (const unknown of ['{"type":"ping"}', '{"type":"new"}', 'no json', '[1]', '{"event_type":"X","seq":"1"}']) {
      plane.socket?.onmessage?.({ data: unknown })
    }
    plane.socket?.onmessage?.({ data: new ArrayBuffer(2) })
    expect(frames.map(({ seq }) => seq)).toEqual([1, 2, 3, 4])
  })

  it('stays live for the reader during a short disconnect', async () => {
    const plane = new FakePlane()
    const { connections, live, subscriptions } = open(plane)
    await plane.advance(7_200_000)
    plane.disconnect()
    expect(live.status()).toEqual({ connection: 'live', detail: null, subscribed: false })
    await plane.advance(1_900)
    expect(connections).toEqual(['live'])
    expect(subscriptions()).toBe(2)
    expect(live.status().subscribed).toBe(true)
  })

  it('backs off during a long outage and reports reconnecting, then disconnected', async () => {
    const plane = new FakePlane()
    plane.randomValue = 0.999
    const { connections, live } = open(plane)
    await plane.advance(20_000)
    plane.up = false
    plane.disconnect()
    await plane.advance(1_999)
    expect(connections).toEqual(['live'])
    await plane.advance(2)
    expect(connections).toEqual(['live', 'reconnecting'])
    await plane.advance(60_000)
    expect(connections).toEqual(['live', 'reconnecting', 'disconnected'])
    expect(live.status().detail).toMatch(/^Cannot reach the control plane\. Next attempt at /)
    const attempts = plane.sockets.length
    await plane.advance(300_000)
    expect(plane.sockets.length - attempts).toBeLessThanOrEqual(11)
    expect(plane.sockets.length - attempts).toBeGreaterThanOrEqual(9)
    plane.up = true
    await plane.advance(30_000)
    expect(connections.at(-1)).toBe('live')
  })

  it('adds jitter to reconnect delays', async () => {
    const delays = await Promise.all(
      [0.1, 0.9].map(async (chance) => {
        const plane = new FakePlane()
        plane.randomValue = chance
        open(plane)
        await plane.advance(20_000)
        plane.disconnect()
        const before = plane.now
        while (plane.socket === undefined) await plane.advance(10)
        return plane.now - before
      }),
    )
    expect(delays).toEqual([280, 480])
  })

  it('is connecting, not reconnecting, before the first subscription', async () => {
    const plane = new FakePlane()
    plane.up = false
    const { connections, live } = open(plane)
    await plane.advance(3_000)
    expect(connections).toEqual([])
    expect(live.status().connection).toBe('connecting')
    plane.up = true
    await plane.advance(10_000)
    expect(connections).toEqual(['live'])
  })

  it('replaces a socket that has been silent for 90 seconds', async () => {
    const plane = new FakePlane()
    open(plane)
    await plane.advance(1_000)
    const first = plane.socket
    if (first === undefined) throw new Error('no socket')
    await plane.advance(600_000)
    expect(plane.sockets).toHaveLength(1)
    expect(first.sent.filter(({ type }) => type === 'ping')).toHaveLength(13)
    first.unresponsive = true
    await plane.advance(95_000)
    expect(first.closed).toBe(true)
    expect(plane.socket?.subscribed).toBe(true)
  })

  it('limits the time of a handshake', async () => {
    const plane = new FakePlane()
    open(plane)
    const first = plane.socket
    if (first === undefined) throw new Error('no socket')
    first.unresponsive = true
    await plane.advance(16_000)
    expect(first.closed).toBe(true)
    expect(plane.socket?.subscribed).toBe(true)
  })

  it('probes the connection when the page becomes visible again', async () => {
    const plane = new FakePlane()
    const { live } = open(plane)
    await plane.advance(1_000)
    plane.wakeUp()
    await plane.advance(6_000)
    expect(plane.sockets).toHaveLength(1)
    const first = plane.socket
    if (first === undefined) throw new Error('no socket')
    first.unresponsive = true
    plane.wakeUp()
    await plane.advance(6_000)
    expect(first.closed).toBe(true)
    expect(live.status().subscribed).toBe(true)
  })

  it('reconnects at once when the browser is back online', async () => {
    const plane = new FakePlane()
    const { live, connections } = open(plane)
    await plane.advance(1_000)
    plane.goOffline()
    expect(live.status()).toMatchObject({
      connection: 'disconnected',
      detail: expect.stringContaining('offline') as string,
    })
    await plane.advance(60_000)
    expect(plane.sockets).toHaveLength(1)
    plane.wakeUp()
    await plane.flush()
    expect(connections).toEqual(['live', 'disconnected', 'reconnecting', 'live'])
  })

  it('uses the token that another tab signed in with', async () => {
    const plane = new FakePlane()
    const { live } = open(plane)
    await plane.advance(1_000)
    plane.accepted = new Set(['new'])
    plane.storedToken = 'new'
    plane.socket?.onmessage?.({ data: '{"error":"Your token has expired.","code":"token_expired"}' })
    await plane.flush()
    expect(plane.socket?.sent).toEqual([{ type: 'auth', token: 'new', ...SUBSCRIBE }])
    expect(live.status()).toEqual({ connection: 'live', detail: null, subscribed: true })
  })

  it('reports an expired token and reconnects with a new one', async () => {
    const plane = new FakePlane()
    const { live, connections } = open(plane)
    await plane.advance(1_000)
    plane.accepted.clear()
    plane.socket?.onmessage?.({ data: '{"error":"Your token has expired.","code":"token_expired"}' })
    plane.disconnect()
    expect(live.status().detail).toBe('Your token is no longer valid. Sign in again.')
    const attempts = plane.sockets.length
    await plane.advance(60_000)
    expect(plane.sockets.length - attempts).toBeLessThanOrEqual(4)
    expect(live.status().connection).toBe('disconnected')
    plane.accepted.add('new')
    plane.signIn('new')
    await plane.flush()
    expect(connections).toEqual(['live', 'disconnected', 'reconnecting', 'live'])
  })

  it('asks for a token when there is none', async () => {
    const plane = new FakePlane()
    plane.token = plane.storedToken = null
    const { live } = open(plane)
    await plane.flush()
    expect(live.status()).toMatchObject({
      connection: 'disconnected',
      detail: 'Authentication required. Sign in with a token.',
    })
  })

  it('changes filters one request at a time and confirms the last', async () => {
    const plane = new FakePlane()
    const { live, subscriptions } = open(plane)
    live.setFilters({ entity_ids: ['s', 't-1'] })
    await plane.flush()
    live.setFilters({ entity_ids: ['s', 't-1'] })
    live.setFilters({ entity_ids: ['s', 't-2'] })
    live.setFilters({ entity_ids: ['s', 't-3'] })
    await plane.flush()
    const requested = plane.socket?.sent.filter(({ type }) => type === 'subscribe').map(({ entity_ids }) => entity_ids)
    expect(requested).toEqual([
      ['s', 't-1'],
      ['s', 't-2'],
      ['s', 't-3'],
    ])
    expect(subscriptions()).toBe(3)
    plane.disconnect()
    await plane.advance(1_000)
    expect(plane.socket?.sent).toEqual([{ type: 'auth', token: 'good', ...SUBSCRIBE, entity_ids: ['s', 't-3'] }])
  })

  it('reports the first subscription while a filter change is pending', async () => {
    const plane = new FakePlane()
    const { live, frames, subscriptions } = open(plane)
    live.setFilters({ entity_ids: ['s', 't-1'] })
    const { socket } = plane
    if (socket === undefined) throw new Error('no socket')
    // The first subscription is confirmed; the filter change is not.
    while (!socket.subscribed) await Promise.resolve()
    socket.unresponsive = true
    plane.append(1)
    expect(frames).toHaveLength(1)
    expect(subscriptions()).toBe(1)
  })

  it('connects at once on a manual retry', async () => {
    const plane = new FakePlane()
    plane.up = false
    const { live } = open(plane)
    await plane.advance(120_000)
    expect(live.status().connection).toBe('disconnected')
    plane.up = true
    live.retryNow()
    expect(live.status().connection).toBe('connecting')
    await plane.flush()
    expect(live.status().connection).toBe('live')
  })

  it('releases all resources whenever it is closed', async () => {
    for (const until of [0, 1, 100, 700, 20_000]) {
      const plane = new FakePlane()
      const { live, frames } = open(plane)
      await plane.advance(until)
      plane.up = until !== 700
      if (until >= 100) plane.disconnect()
      if (until === 20_000) await plane.advance(1_000)
      const onmessage = plane.sockets.at(-1)?.onmessage
      live.close()
      onmessage?.({ data: JSON.stringify(frame({ id: 'e', seq: 1, type: 'agent.message', data: {}, at: '' })) })
      await plane.flush()
      expect(plane.openResources).toEqual({ timers: 0, paints: 0, sockets: 0, listeners: 0 })
      const attempts = plane.sockets.length
      plane.wakeUp()
      await plane.advance(600_000)
      expect(plane.sockets).toHaveLength(attempts)
      expect(frames).toEqual([])
    }
  })
})
