import { describe, expect, it } from 'vitest'
import type { Row } from '../../timeline/rows'
import { announcement, countAfter, estimate, nextError } from './feed-rows'

const at = '2026-01-02T03:04:05.000000Z'
const text = (seq: number): Row => ({
  kind: 'text',
  key: `seq:${seq}`,
  seq,
  lastSeq: seq,
  at,
  turn: 1,
  parent: null,
  text: 'a',
  rest: null,
})
const error = (seq: number): Row => ({
  kind: 'error',
  key: `seq:${seq}`,
  seq,
  lastSeq: seq,
  at,
  turn: 1,
  parent: null,
  title: 'Agent error',
  text: '',
  recovers: false,
  eventType: 'agent.error',
})

describe('nextError', () => {
  const rows = [text(1), error(2), text(3), error(4), text(5)]
  it('moves to the next error and wraps around', () => {
    expect([nextError(rows, 0), nextError(rows, 1), nextError(rows, 3)]).toEqual([1, 3, 1])
  })
  it('returns -1 if there is none', () => {
    expect(nextError([text(1)], 0)).toBe(-1)
    expect(nextError([], 0)).toBe(-1)
  })
})

describe('countAfter', () => {
  it('counts newer rows', () => {
    const rows = [text(1), text(2), text(5)]
    expect([countAfter(rows, 0), countAfter(rows, 2), countAfter(rows, 5)]).toEqual([3, 1, 0])
  })
})

describe('announcement', () => {
  it('describes the last end or error', () => {
    expect(announcement([error(1), text(2), text(3)])).toBe('Error: Agent error')
    expect(announcement([text(1)])).toBe('')
  })
})

describe('estimate', () => {
  it('is greater for longer text', () => {
    const long: Row = { ...text(1), kind: 'text', text: 'word '.repeat(400), rest: null }
    expect(estimate(long)).toBeGreaterThan(estimate(text(1)))
  })
})
