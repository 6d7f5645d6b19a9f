import { describe, expect, it } from 'vitest'
import type { MessageQueued, NewMessage } from '../../../api/contract'
import { ApiError } from '../../../api/http'
import { decode, encode } from './outbox'
import { openOutbox, type OutboxEnvironment } from './outbox-store'

/** A browser storage, and a control plane whose responses tests set. */
class Fixture {
  readonly browserStorage = new Map<string, string>()
  /** All requests, including retries. */
  readonly requests: NewMessage[] = []
  /** Messages of the control plane by id. */
  readonly stored = new Map<string, string>()
  respond: (message: NewMessage) => Promise<void> = () => Promise.resolve()
  now = Date.parse('2026-01-01T12:00:00Z')
  #ids = 0

  open() {
    const environment: OutboxEnvironment = {
      storage: {
        getItem: (key) => this.browserStorage.get(key) ?? null,
        setItem: (key, value) => this.browserStorage.set(key, value),
        removeItem: (key) => this.browserStorage.delete(key),
      },
      send: async (_, message): Promise<MessageQueued> => {
        this.requests.push(message)
        await this.respond(message)
        this.stored.set(message.message_id ?? '', message.content)
        return {
          status: 'queued',
          message_id: message.message_id ?? '',
          sandbox_id: 's',
          queue_size: 1,
          seq: this.stored.size,
        }
      },
      newId: () => {
        this.#ids += 1
        return `m-${this.#ids}`
      },
      now: () => this.now,
      wait: () => Promise.resolve(),
    }
    return openOutbox('s', environment)
  }
}

const unreachable = () => Promise.reject(new ApiError(0, 'unreachable', 'Cannot reach the control plane.', null, null))
const forbidden = () => Promise.reject(new ApiError(403, 'forbidden', 'No.', null, null))
const never = () => new Promise<void>(() => undefined)
const flush = () => new Promise((resolve) => setImmediate(resolve))

describe('an outbox', () => {
  it('sends messages in order and removes them when they are logged', async () => {
    const fixture = new Fixture()
    const outbox = fixture.open()
    outbox.send('user_message', 'one')
    outbox.send('user_message', 'two')
    await flush()
    expect([...fixture.stored]).toEqual([
      ['m-1', 'one'],
      ['m-2', 'two'],
    ])
    expect(outbox.state().messages.map(({ state, seq }) => [state, seq])).toEqual([
      ['queued', 1],
      ['queued', 2],
    ])
    outbox.prune(1, new Set())
    expect(outbox.state().messages.map(({ id }) => id)).toEqual(['m-2'])
    outbox.prune(1, new Set(['m-2']))
    expect(outbox.state().messages).toEqual([])
    expect(fixture.browserStorage.size).toBe(0)
  })

  it('retries once automatically with the same id', async () => {
    const fixture = new Fixture()
    let failures = 1
    fixture.respond = () => {
      failures -= 1
      return failures >= 0 ? unreachable() : Promise.resolve()
    }
    const outbox = fixture.open()
    outbox.send('user_message', 'hello')
    await flush()
    expect(fixture.requests.map(({ message_id }) => message_id)).toEqual(['m-1', 'm-1'])
    expect(outbox.state().messages[0]?.state).toBe('queued')
  })

  it('keeps failed messages with their error and retries them with the same id', async () => {
    const fixture = new Fixture()
    fixture.respond = unreachable
    const outbox = fixture.open()
    outbox.send('user_message', 'hello')
    await flush()
    expect(outbox.state().messages).toMatchObject([
      { id: 'm-1', state: 'failed', problem: 'Cannot reach the control plane. Check that it is running.' },
    ])
    fixture.respond = () => Promise.resolve()
    outbox.retry('m-1')
    outbox.retry('m-1')
    await flush()
    expect([...fixture.stored.keys()]).toEqual(['m-1'])
    expect(fixture.requests.filter(({ message_id }) => message_id === 'm-1')).toHaveLength(3)
  })

  it('does not retry rejected messages automatically', async () => {
    const fixture = new Fixture()
    fixture.respond = forbidden
    const outbox = fixture.open()
    outbox.send('user_message', 'hello')
    await flush()
    expect(fixture.requests).toHaveLength(1)
    expect(outbox.state().messages[0]?.problem).toBe('You do not have permission to do this.')
  })

  it('resends a pending message once after the page was closed', async () => {
    const fixture = new Fixture()
    fixture.respond = never
    fixture.open().send('user_message', 'hello')
    fixture.respond = () => Promise.resolve()
    const reopened = fixture.open()
    await flush()
    expect(fixture.requests.map(({ message_id }) => message_id)).toEqual(['m-1', 'm-1'])
    expect(reopened.state().messages).toMatchObject([{ id: 'm-1', state: 'queued' }])
    fixture.open()
    await flush()
    expect(fixture.requests).toHaveLength(2)
  })

  it('does not resend old messages', async () => {
    const fixture = new Fixture()
    fixture.respond = never
    const closed = fixture.open()
    closed.send('user_message', 'long ago')
    fixture.now += 11 * 60_000
    const later = fixture.open()
    await flush()
    expect(fixture.requests).toHaveLength(1)
    expect(later.state().messages).toMatchObject([{ state: 'failed', content: 'long ago' }])
  })

  it('does not delay urgent messages', async () => {
    const fixture = new Fixture()
    fixture.respond = ({ message_type }) => (message_type === 'user_message' ? never() : Promise.resolve())
    const outbox = fixture.open()
    outbox.send('user_message', 'slow')
    outbox.send('interrupt', 'now')
    await flush()
    expect([...fixture.stored.values()]).toEqual(['now'])
  })

  it('keeps a draft and moves a failed text back into it', async () => {
    const fixture = new Fixture()
    fixture.open().write('half a th')
    const outbox = fixture.open()
    expect(outbox.state().draft).toBe('half a th')
    fixture.respond = forbidden
    outbox.send('user_message', 'first')
    outbox.write('second')
    await flush()
    outbox.edit('m-1')
    expect(outbox.state()).toMatchObject({ draft: 'first\nsecond', messages: [] })
    expect(fixture.open().state()).toMatchObject({ draft: 'first\nsecond', messages: [] })
    outbox.write('')
    expect(fixture.browserStorage.size).toBe(0)
  })

  it('does not change messages of another tab', async () => {
    const fixture = new Fixture()
    const [here, there] = [fixture.open(), fixture.open()]
    fixture.respond = forbidden
    here.send('user_message', 'here')
    there.send('user_message', 'there')
    await flush()
    expect(
      fixture
        .open()
        .state()
        .messages.map(({ content }) => content)
        .sort(),
    ).toEqual(['here', 'there'])
    here.discard('m-1')
    expect(
      fixture
        .open()
        .state()
        .messages.map(({ content }) => content),
    ).toEqual(['there'])
  })

  it('works without local storage', async () => {
    const fixture = new Fixture()
    const forbid = () => {
      throw new Error('no storage here')
    }
    const outbox = openOutbox('s', {
      storage: { getItem: forbid, setItem: forbid, removeItem: forbid },
      send: () => Promise.resolve({ status: 'queued', message_id: 'm', sandbox_id: 's', queue_size: 1, seq: 1 }),
      newId: () => 'm',
      now: () => fixture.now,
      wait: () => Promise.resolve(),
    })
    outbox.write('text')
    outbox.send('user_message', 'text')
    await flush()
    expect(outbox.state()).toMatchObject({ draft: 'text', messages: [{ state: 'queued' }] })
  })

  it('ignores invalid stored data', () => {
    const good = {
      id: 'm',
      type: 'stop',
      content: 'c',
      at: '2026-01-01T12:00:00Z',
      state: 'failed',
      problem: null,
      seq: null,
    } as const
    for (const invalid of [
      null,
      '',
      '{',
      '{}',
      '[1,null,{}]',
      JSON.stringify([
        { ...good, type: 'other' },
        { ...good, state: 'queued' },
      ]),
    ]) {
      expect(decode(invalid, 0)).toEqual([])
    }
    expect(decode(encode([good]), 0)).toEqual([good])
  })
})
