import { describe, expect, it } from 'vitest'
import type { Row } from '../../timeline/rows'
import { announcement, countAfter, estimate, nextTrouble } from './feed-rows'

const at = '2026-01-02T03:04:05.000000Z'
const text = (seq: number): Row => ({ kind: 'text', key: `seq:${seq}`, seq, lastSeq: seq, at, turn: 1, parent: null, text: 'a', rest: null })
const error = (seq: number): Row => ({ kind: 'error', key: `seq:${seq}`, seq, lastSeq: seq, at, turn: 1, parent: null, title: 'It broke', text: '', recovers: false, eventType: 'agent.error' })

describe('nextTrouble', () => {
  const rows = [text(1), error(2), text(3), error(4), text(5)]
  it('goes from one to the next, and from the last to the first', () => {
    expect([nextTrouble(rows, 0), nextTrouble(rows, 1), nextTrouble(rows, 3)]).toEqual([1, 3, 1])
  })
  it('says where there is none', () => {
    expect(nextTrouble([text(1)], 0)).toBe(-1)
    expect(nextTrouble([], 0)).toBe(-1)
  })
})

describe('countAfter', () => {
  it('counts what came since', () => {
    const rows = [text(1), text(2), text(5)]
    expect([countAfter(rows, 0), countAfter(rows, 2), countAfter(rows, 5)]).toEqual([3, 1, 0])
  })
})

describe('announcement', () => {
  it('tells of the last thing that ended or went wrong, not of every row', () => {
    expect(announcement([error(1), text(2), text(3)])).toBe('Error: It broke')
    expect(announcement([text(1)])).toBe('')
  })
})

describe('estimate', () => {
  it('thinks more of more', () => {
    const long: Row = { ...text(1), kind: 'text', text: 'word '.repeat(400), rest: null }
    expect(estimate(long)).toBeGreaterThan(estimate(text(1)))
  })
})
