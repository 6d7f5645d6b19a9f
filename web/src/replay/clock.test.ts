import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LONGEST_SILENCE_MS, clock, indexAt, offsetOf, played } from './clock'

const at = (milliseconds: number) => ({ at: new Date(1_700_000_000_000 + milliseconds).toISOString() })

/** Events with these gaps before them. */
const logs = fc
  .array(fc.nat({ max: 10_000 }), { minLength: 1, maxLength: 60 })
  .map((gaps) => gaps.map((_, index) => at(gaps.slice(0, index + 1).reduce((sum, gap) => sum + gap, 0))))

describe('the clock of a replay', () => {
  it('keeps real time while silences are not shortened', () => {
    const real = clock([at(0), at(500), at(60_500)], false)
    expect([...real.offsets]).toEqual([0, 500, 60_500])
    expect(real.skippedMs).toBe(0)
  })

  it('shortens long silences, keeps short ones, and says how much it left out', () => {
    const short = clock([at(0), at(500), at(60_500), at(61_000)], true)
    expect([...short.offsets]).toEqual([0, 500, 500 + LONGEST_SILENCE_MS, 1_000 + LONGEST_SILENCE_MS])
    expect(short.skippedMs).toBe(60_000 - LONGEST_SILENCE_MS)
  })

  it('never runs backwards, even if the clock of the plane did', () => {
    const odd = clock([at(5_000), at(1_000), { at: 'nonsense' }, at(6_000)], false)
    expect([...odd.offsets]).toEqual([0, 0, 0, 1_000])
  })

  it('has a place for nothing', () => {
    const none = clock([], true)
    expect([none.totalMs, indexAt(none, 10), offsetOf(none, 3)]).toEqual([0, 0, 0])
  })

  it('finds for every offset the last event that has happened', () => {
    fc.assert(
      fc.property(logs, fc.boolean(), fc.nat({ max: 700_000 }), (events, skip, offset) => {
        const line = clock(events, skip)
        const index = indexAt(line, offset)
        expect(offsetOf(line, index)).toBeLessThanOrEqual(offset)
        const next = line.offsets[index + 1]
        if (next !== undefined) expect(next).toBeGreaterThan(offset)
      }),
    )
  })

  it('accounts for all of the time, shown or skipped', () => {
    fc.assert(
      fc.property(logs, (events) => {
        const short = clock(events, true)
        expect(short.totalMs + short.skippedMs).toBe(clock(events, false).totalMs)
      }),
    )
  })

  it('plays at its speed and stops at the end', () => {
    const line = clock([at(0), at(1_000)], false)
    expect(played(line, 100, 200, 2)).toBe(500)
    expect(played(line, 100, 200, 50)).toBe(1_000)
    expect(played(line, 100, -5, 2)).toBe(100)
  })
})
