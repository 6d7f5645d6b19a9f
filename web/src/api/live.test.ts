import { describe, expect, it } from 'vitest'
import type { EventFrame, FilterChange } from './contract'
import { FakePlane, frame } from './fake-plane'
import { openLive } from './live'

function open(plane: FakePlane, filters: FilterChange = { entity_ids: ['s'] }) {
  const frames: EventFrame[] = []
  const words: string[] = []
  let subscriptions = 0
  const live = openLive({
    world: plane.world,
    filters,
    onFrames: (more) => frames.push(...more),
    onSubscribed: () => (subscriptions += 1),
    onStatus: ({ connection }) => {
      if (words.at(-1) !== connection) words.push(connection)
    },
  })
  return { live, frames, words, subscriptions: () => subscriptions }
}

describe('a socket', () => {
  it('says who it is in its first frame and nowhere else, and is subscribed with that', async () => {
    const plane = new FakePlane()
    const { live, words, subscriptions } = open(plane)
    await plane.settle()
    expect(plane.socket?.sent).toEqual([{ type: 'auth', token: 'good' }])
    expect(plane.socket?.url).toBe('/api/v1/ws/events?batch=true&entity_ids=s')
    expect(words).toEqual(['live'])
    expect(subscriptions()).toBe(1)
    live.close()
  })

  it('needs no token where the plane asks for none', async () => {
    const plane = new FakePlane()
    plane.token = null
    plane.accepted = new Set([null])
    const { live } = open(plane)
    await plane.settle()
    expect(plane.socket?.sent).toEqual([{ type: 'subscribe' }])
    expect(live.status().connection).toBe('live')
  })

  it('hears single frames and bundles, and ignores what it does not know', async () => {
    const plane = new FakePlane()
    const { frames } = open(plane)
    await plane.settle()
    plane.append(1)
    plane.append(3)
    for (const strange of ['{"type":"ping"}', '{"type":"new"}', 'no json', '[1]', '{"event_type":"X","seq":"1"}']) {
      plane.socket?.onmessage?.({ data: strange })
    }
    plane.socket?.onmessage?.({ data: new ArrayBuffer(2) })
    expect(frames.map(({ seq }) => seq)).toEqual([1, 2, 3, 4])
  })

  it('comes back from a short cut without a word to the reader', async () => {
    const plane = new FakePlane()
    const { words, live, subscriptions } = open(plane)
    await plane.pass(7_200_000)
    plane.cut()
    expect(live.status()).toEqual({ connection: 'live', detail: null, subscribed: false })
    await plane.pass(1_900)
    expect(words).toEqual(['live'])
    expect(subscriptions()).toBe(2)
    expect(live.status().subscribed).toBe(true)
  })

  it('says that it reconnects when a cut takes longer, tries less and less often, and then says so', async () => {
    const plane = new FakePlane()
    plane.chance = 0.999
    const { words, live } = open(plane)
    await plane.pass(20_000)
    plane.up = false
    plane.cut()
    await plane.pass(1_999)
    expect(words).toEqual(['live'])
    await plane.pass(2)
    expect(words).toEqual(['live', 'reconnecting'])
    await plane.pass(60_000)
    expect(words).toEqual(['live', 'reconnecting', 'disconnected'])
    expect(live.status().detail).toMatch(/^The plane cannot be reached\. Next try at /)
    const tries = plane.sockets.length
    await plane.pass(300_000)
    expect(plane.sockets.length - tries).toBeLessThanOrEqual(11)
    expect(plane.sockets.length - tries).toBeGreaterThanOrEqual(9)
    plane.up = true
    await plane.pass(30_000)
    expect(words.at(-1)).toBe('live')
  })

  it('spreads its tries by chance', async () => {
    const waits = await Promise.all(
      [0.1, 0.9].map(async (chance) => {
        const plane = new FakePlane()
        plane.chance = chance
        open(plane)
        await plane.pass(20_000)
        plane.cut()
        const before = plane.now
        while (plane.socket === undefined) await plane.pass(10)
        return plane.now - before
      }),
    )
    expect(waits).toEqual([50, 450])
  })

  it('is connecting, not reconnecting, until it was live once', async () => {
    const plane = new FakePlane()
    plane.up = false
    const { words, live } = open(plane)
    await plane.pass(3_000)
    expect(words).toEqual([])
    expect(live.status().connection).toBe('connecting')
    plane.up = true
    await plane.pass(10_000)
    expect(words).toEqual(['live'])
  })

  it('gives a socket up that has been silent for 90 seconds', async () => {
    const plane = new FakePlane()
    open(plane)
    await plane.pass(1_000)
    const first = plane.socket
    if (first === undefined) throw new Error('no socket')
    await plane.pass(600_000)
    expect(plane.sockets).toHaveLength(1)
    expect(first.sent.filter(({ type }) => type === 'ping')).toHaveLength(13)
    first.deaf = true
    await plane.pass(95_000)
    expect(first.closed).toBe(true)
    expect(plane.socket?.subscribed).toBe(true)
  })

  it('does not wait for a handshake for ever', async () => {
    const plane = new FakePlane()
    open(plane)
    const first = plane.socket
    if (first === undefined) throw new Error('no socket')
    first.deaf = true
    await plane.pass(16_000)
    expect(first.closed).toBe(true)
    expect(plane.socket?.subscribed).toBe(true)
  })

  it('proves within seconds that it lives when the page is looked at again', async () => {
    const plane = new FakePlane()
    const { live } = open(plane)
    await plane.pass(1_000)
    plane.wakeUp()
    await plane.pass(6_000)
    expect(plane.sockets).toHaveLength(1)
    const first = plane.socket
    if (first === undefined) throw new Error('no socket')
    first.deaf = true
    plane.wakeUp()
    await plane.pass(6_000)
    expect(first.closed).toBe(true)
    expect(live.status().subscribed).toBe(true)
  })

  it('goes on at once when the browser is online again', async () => {
    const plane = new FakePlane()
    const { live, words } = open(plane)
    await plane.pass(1_000)
    plane.goOffline()
    expect(live.status()).toMatchObject({ connection: 'disconnected', detail: expect.stringContaining('offline') as string })
    await plane.pass(60_000)
    expect(plane.sockets).toHaveLength(1)
    plane.wakeUp()
    await plane.settle()
    expect(words).toEqual(['live', 'disconnected', 'reconnecting', 'live'])
  })

  it('takes the token that another tab has signed in with', async () => {
    const plane = new FakePlane()
    const { live } = open(plane)
    await plane.pass(1_000)
    plane.accepted = new Set(['new'])
    plane.kept = 'new'
    plane.socket?.onmessage?.({ data: '{"error":"Your token has ended.","code":"token_expired"}' })
    await plane.settle()
    expect(plane.socket?.sent).toEqual([{ type: 'auth', token: 'new' }])
    expect(live.status()).toEqual({ connection: 'live', detail: null, subscribed: true })
  })

  it('says that the token is no longer valid, and goes on when there is another', async () => {
    const plane = new FakePlane()
    const { live, words } = open(plane)
    await plane.pass(1_000)
    plane.accepted.clear()
    plane.socket?.onmessage?.({ data: '{"error":"Your token has ended.","code":"token_expired"}' })
    plane.cut()
    expect(live.status().detail).toBe('Your token is no longer valid. Sign in again.')
    const tries = plane.sockets.length
    await plane.pass(60_000)
    expect(plane.sockets.length - tries).toBeLessThanOrEqual(4)
    expect(live.status().connection).toBe('disconnected')
    plane.accepted.add('new')
    plane.signIn('new')
    await plane.settle()
    expect(words).toEqual(['live', 'disconnected', 'reconnecting', 'live'])
  })

  it('asks for a token where there is none', async () => {
    const plane = new FakePlane()
    plane.token = plane.kept = null
    const { live } = open(plane)
    await plane.settle()
    expect(live.status()).toMatchObject({
      connection: 'disconnected',
      detail: 'The plane asks who you are. Sign in with a token.',
    })
  })

  it('asks for other filters one after the other, and is told when the last ones hold', async () => {
    const plane = new FakePlane()
    const { live, subscriptions } = open(plane)
    live.setFilters({ entity_ids: ['s', 't-1'] })
    await plane.settle()
    live.setFilters({ entity_ids: ['s', 't-1'] })
    live.setFilters({ entity_ids: ['s', 't-2'] })
    live.setFilters({ entity_ids: ['s', 't-3'] })
    await plane.settle()
    const wishes = plane.socket?.sent.filter(({ type }) => type === 'subscribe').map(({ entity_ids }) => entity_ids)
    expect(wishes).toEqual([['s', 't-1'], ['s', 't-2'], ['s', 't-3']])
    expect(subscriptions()).toBe(3)
    plane.cut()
    await plane.pass(1_000)
    expect(plane.socket?.url).toContain('entity_ids=s%2Ct-3')
  })

  it('has what came before fetched as soon as frames come, also while other filters are asked for', async () => {
    const plane = new FakePlane()
    const { live, frames, subscriptions } = open(plane)
    live.setFilters({ entity_ids: ['s', 't-1'] })
    const { socket } = plane
    if (socket === undefined) throw new Error('no socket')
    // The first answer comes; the one to the new filters does not.
    while (!socket.subscribed) await Promise.resolve()
    socket.deaf = true
    plane.append(1)
    expect(frames).toHaveLength(1)
    expect(subscriptions()).toBe(1)
  })

  it('tries at once when the reader says so', async () => {
    const plane = new FakePlane()
    plane.up = false
    const { live } = open(plane)
    await plane.pass(120_000)
    expect(live.status().connection).toBe('disconnected')
    plane.up = true
    live.retryNow()
    expect(live.status().connection).toBe('connecting')
    await plane.settle()
    expect(live.status().connection).toBe('live')
  })

  it('leaves nothing behind, whenever it is closed', async () => {
    for (const until of [0, 1, 100, 700, 20_000]) {
      const plane = new FakePlane()
      const { live, frames } = open(plane)
      await plane.pass(until)
      plane.up = until !== 700
      if (until >= 100) plane.cut()
      if (until === 20_000) await plane.pass(1_000)
      const heard = plane.sockets.at(-1)?.onmessage
      live.close()
      heard?.({ data: JSON.stringify(frame({ id: 'e', seq: 1, type: 'agent.message', data: {}, at: '' })) })
      await plane.settle()
      expect(plane.leftovers).toEqual({ timers: 0, paints: 0, sockets: 0, listeners: 0 })
      const tries = plane.sockets.length
      plane.wakeUp()
      await plane.pass(600_000)
      expect(plane.sockets).toHaveLength(tries)
      expect(frames).toEqual([])
    }
  })
})
