import { describe, expect, it } from 'vitest'
import type { MessageQueued, NewMessage } from '../../../api/contract'
import { Refused } from '../../../api/http'
import { decode, encode } from './outbox'
import { openOutbox, type OutboxWorld } from './outbox-store'

/** A browser's memory and a plane that answers when it is told to. */
class Bench {
  readonly kept = new Map<string, string>()
  /** What arrived at the plane, repeats included. */
  readonly arrived: NewMessage[] = []
  /** What the plane has: each id once. */
  readonly stored = new Map<string, string>()
  answer: (message: NewMessage) => Promise<void> = () => Promise.resolve()
  now = Date.parse('2026-01-01T12:00:00Z')
  #ids = 0

  open() {
    const world: OutboxWorld = {
      storage: {
        getItem: (key) => this.kept.get(key) ?? null,
        setItem: (key, value) => this.kept.set(key, value),
        removeItem: (key) => this.kept.delete(key),
      },
      send: async (_, message): Promise<MessageQueued> => {
        this.arrived.push(message)
        await this.answer(message)
        this.stored.set(message.message_id ?? '', message.content)
        return { status: 'queued', message_id: message.message_id ?? '', sandbox_id: 's', queue_size: 1, seq: this.stored.size }
      },
      newId: () => {
        this.#ids += 1
        return `m-${this.#ids}`
      },
      now: () => this.now,
      wait: () => Promise.resolve(),
    }
    return openOutbox('s', world)
  }
}

const unreachable = () => Promise.reject(new Refused(0, 'unreachable', 'The plane cannot be reached.', null, null))
const forbidden = () => Promise.reject(new Refused(403, 'forbidden', 'No.', null, null))
const never = () => new Promise<void>(() => undefined)
const settle = () => new Promise((resolve) => setImmediate(resolve))

describe('an outbox', () => {
  it('sends what it is given in order, and forgets it when the log tells of it', async () => {
    const bench = new Bench()
    const outbox = bench.open()
    outbox.send('user_message', 'one')
    outbox.send('user_message', 'two')
    await settle()
    expect([...bench.stored]).toEqual([['m-1', 'one'], ['m-2', 'two']])
    expect(outbox.desk().messages.map(({ state, seq }) => [state, seq])).toEqual([['queued', 1], ['queued', 2]])
    outbox.settle(1, new Set())
    expect(outbox.desk().messages.map(({ id }) => id)).toEqual(['m-2'])
    outbox.settle(1, new Set(['m-2']))
    expect(outbox.desk().messages).toEqual([])
    expect(bench.kept.size).toBe(0)
  })

  it('repeats once by itself what got no answer, as the same message', async () => {
    const bench = new Bench()
    let failures = 1
    bench.answer = () => {
      failures -= 1
      return failures >= 0 ? unreachable() : Promise.resolve()
    }
    const outbox = bench.open()
    outbox.send('user_message', 'hello')
    await settle()
    expect(bench.arrived.map(({ message_id }) => message_id)).toEqual(['m-1', 'm-1'])
    expect(outbox.desk().messages[0]?.state).toBe('queued')
  })

  it('keeps what could not be sent, says why, and sends it again under the same id', async () => {
    const bench = new Bench()
    bench.answer = unreachable
    const outbox = bench.open()
    outbox.send('user_message', 'hello')
    await settle()
    expect(outbox.desk().messages).toMatchObject([{ id: 'm-1', state: 'failed', problem: 'The plane cannot be reached. Is it running?' }])
    bench.answer = () => Promise.resolve()
    outbox.retry('m-1')
    outbox.retry('m-1')
    await settle()
    expect([...bench.stored.keys()]).toEqual(['m-1'])
    expect(bench.arrived.filter(({ message_id }) => message_id === 'm-1')).toHaveLength(3)
  })

  it('does not repeat by itself what is refused', async () => {
    const bench = new Bench()
    bench.answer = forbidden
    const outbox = bench.open()
    outbox.send('user_message', 'hello')
    await settle()
    expect(bench.arrived).toHaveLength(1)
    expect(outbox.desk().messages[0]?.problem).toBe('Your role does not allow this.')
  })

  it('sends what was on its way when the page was closed, once more and as the same message', async () => {
    const bench = new Bench()
    bench.answer = never
    bench.open().send('user_message', 'hello')
    bench.answer = () => Promise.resolve()
    const reopened = bench.open()
    await settle()
    expect(bench.arrived.map(({ message_id }) => message_id)).toEqual(['m-1', 'm-1'])
    expect(reopened.desk().messages).toMatchObject([{ id: 'm-1', state: 'queued' }])
    bench.open()
    await settle()
    expect(bench.arrived).toHaveLength(2)
  })

  it('does not send by itself what is long ago, nor what failed', async () => {
    const bench = new Bench()
    bench.answer = never
    const closed = bench.open()
    closed.send('user_message', 'long ago')
    bench.now += 11 * 60_000
    const later = bench.open()
    await settle()
    expect(bench.arrived).toHaveLength(1)
    expect(later.desk().messages).toMatchObject([{ state: 'failed', content: 'long ago' }])
  })

  it('lets what is urgent overtake', async () => {
    const bench = new Bench()
    bench.answer = ({ message_type }) => (message_type === 'user_message' ? never() : Promise.resolve())
    const outbox = bench.open()
    outbox.send('user_message', 'slow')
    outbox.send('interrupt', 'now')
    await settle()
    expect([...bench.stored.values()]).toEqual(['now'])
  })

  it('keeps a draft until it is sent, and gives a failed text back to be mended', async () => {
    const bench = new Bench()
    bench.open().write('half a th')
    const outbox = bench.open()
    expect(outbox.desk().draft).toBe('half a th')
    bench.answer = forbidden
    outbox.send('user_message', 'first')
    outbox.write('second')
    await settle()
    outbox.edit('m-1')
    expect(outbox.desk()).toMatchObject({ draft: 'first\nsecond', messages: [] })
    expect(bench.open().desk()).toMatchObject({ draft: 'first\nsecond', messages: [] })
    outbox.write('')
    expect(bench.kept.size).toBe(0)
  })

  it('leaves what another tab keeps as it is', async () => {
    const bench = new Bench()
    const [here, there] = [bench.open(), bench.open()]
    bench.answer = forbidden
    here.send('user_message', 'here')
    there.send('user_message', 'there')
    await settle()
    expect(bench.open().desk().messages.map(({ content }) => content).sort()).toEqual(['here', 'there'])
    here.discard('m-1')
    expect(bench.open().desk().messages.map(({ content }) => content)).toEqual(['there'])
  })

  it('works where the browser keeps nothing', async () => {
    const bench = new Bench()
    const forbid = () => {
      throw new Error('no storage here')
    }
    const outbox = openOutbox('s', {
      storage: { getItem: forbid, setItem: forbid, removeItem: forbid },
      send: () => Promise.resolve({ status: 'queued', message_id: 'm', sandbox_id: 's', queue_size: 1, seq: 1 }),
      newId: () => 'm',
      now: () => bench.now,
      wait: () => Promise.resolve(),
    })
    outbox.write('text')
    outbox.send('user_message', 'text')
    await settle()
    expect(outbox.desk()).toMatchObject({ draft: 'text', messages: [{ state: 'queued' }] })
  })

  it('reads nothing that it did not write', () => {
    const good = { id: 'm', type: 'stop', content: 'c', at: '2026-01-01T12:00:00Z', state: 'failed', problem: null, seq: null } as const
    for (const strange of [null, '', '{', '{}', '[1,null,{}]', JSON.stringify([{ ...good, type: 'other' }, { ...good, state: 'queued' }])]) {
      expect(decode(strange, 0)).toEqual([])
    }
    expect(decode(encode([good]), 0)).toEqual([good])
  })
})
