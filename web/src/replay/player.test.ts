import { describe, expect, it } from 'vitest'
import { clock } from './clock'
import { type Player, offsetNow, seek, seekOffset, step, tick, toggle } from './player'

const line = clock(
  [0, 1_000, 1_000, 5_000].map((milliseconds) => ({ at: new Date(milliseconds).toISOString() })),
  false,
)
const start: Player = { index: 0, intoMs: 0, playing: true, speed: 1 }

describe('a player', () => {
  it('advances with time and passes simultaneous events at once', () => {
    const soon = tick(start, line, 900)
    expect([soon.index, soon.intoMs]).toEqual([0, 900])
    const later = tick(soon, line, 200)
    expect([later.index, later.intoMs, later.playing]).toEqual([2, 100, true])
  })

  it('reaches the same position in small ticks as in one', () => {
    let small = start
    for (let each = 0; each < 400; each += 1) small = tick(small, line, 10)
    expect([small.index, Math.round(offsetNow(small, line))]).toEqual([2, 4_000])
  })

  it('plays at the given speed and stops at the end', () => {
    expect(offsetNow(tick({ ...start, speed: 2 }, line, 1_000), line)).toBe(2_000)
    expect(tick({ ...start, speed: 50 }, line, 1_000)).toMatchObject({ index: 3, playing: false })
  })

  it('does not move while paused', () => {
    const still = { ...start, playing: false }
    expect(tick(still, line, 1_000)).toBe(still)
  })

  it('seeks within the ends', () => {
    expect(seek(start, line, 99).index).toBe(3)
    expect(seek(start, line, -1).index).toBe(0)
    expect(seekOffset(start, line, 1_200).index).toBe(2)
  })

  it('steps through simultaneous events one by one and pauses', () => {
    const one = step(start, line, 1)
    expect([one.index, one.playing]).toEqual([1, false])
    expect(step(one, line, 1).index).toBe(2)
    expect(step(step(one, line, 1), line, -1).index).toBe(1)
  })

  it('continues from a stepped event, not from the last simultaneous one', () => {
    const one = { ...step(start, line, 1), playing: true }
    expect(tick(one, line, 1)).toMatchObject({ index: 2, playing: true })
  })

  it('restarts from the end', () => {
    expect(toggle({ ...start, playing: false, index: 3 }, line)).toMatchObject({ index: 0, playing: true })
    expect(toggle(start, line).playing).toBe(false)
    expect(toggle({ ...start, playing: false }, clock([], true)).playing).toBe(false)
  })
})
