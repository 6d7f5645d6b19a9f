import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_GAP_MS, clock, indexAt, offsetOf, played } from './clock'

const at = (milliseconds: number) => ({ at: new Date(1_700_000_000_000 + milliseconds).toISOString() })

/** Events with these gaps before them. */
const logs = fc
  .array(fc.nat({ max: 10_000 }), { minLength: 1, maxLength: 60 })
  .map((gaps) => gaps.map((_, index) => at(gaps.slice(0, index + 1).reduce((sum, gap) => sum + gap, 0))))

describe('the clock of a replay', () => {
  it('keeps real time if gaps are not shortened', () => {
    const real = clock([at(0), at(500), at(60_500)], false)
    expect([...real.offsets]).toEqual([0, 500, 60_500])
    expect(real.skippedMs).toBe(0)
  })

  it('shortens long gaps and reports the skipped time', () => {
    const short = clock([at(0), at(500), at(60_500), at(61_000)], true)
    expect([...short.offsets]).toEqual([0, 500, 500 + MAX_GAP_MS, 1_000 + MAX_GAP_MS])
    expect(short.skippedMs).toBe(60_000 - MAX_GAP_MS)
  })

  it('never runs backwards, even if the server clock did', () => {
    const line = clock([at(5_000), at(1_000), { at: 'nonsense' }, at(6_000)], false)
    expect([...line.offsets]).toEqual([0, 0, 0, 1_000])
  })

  it('accepts an empty log', () => {
    const none = clock([], true)
    expect([none.totalMs, indexAt(none, 10), offsetOf(none, 3)]).toEqual([0, 0, 0])
  })

  it('finds the last event at or before an offset', () => {
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

  it('accounts for all time, shown or skipped', () => {
    fc.assert(
      fc.property(logs, (events) => {
        const short = clock(events, true)
        expect(short.totalMs + short.skippedMs).toBe(clock(events, false).totalMs)
      }),
    )
  })

  it('plays at the given speed and stops at the end', () => {
    const line = clock([at(0), at(1_000)], false)
    expect(played(line, 100, 200, 2)).toBe(500)
    expect(played(line, 100, 200, 50)).toBe(1_000)
    expect(played(line, 100, -5, 2)).toBe(100)
  })
})
