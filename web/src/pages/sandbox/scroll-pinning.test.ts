import { describe, expect, it } from 'vitest'
import { pinnedAfter } from './scroll-pinning'

const at = (top: number, height = 2_000, view = 500) => ({ top, height, view })

describe('pinnedAfter', () => {
  it('unpins when the user scrolls up by any distance', () => {
    expect(pinnedAfter(true, at(1_500), at(1_497), true)).toBe(false)
  })
  it('unpins when the page scrolls up, such as by a find in page', () => {
    expect(pinnedAfter(true, at(1_500), at(200), false)).toBe(false)
  })
  it('unpins when the user scrolls up while rows are added', () => {
    expect(pinnedAfter(true, at(1_500), at(1_480, 2_300), true)).toBe(false)
  })
  it('stays pinned when rows are added', () => {
    expect(pinnedAfter(true, at(1_500), at(1_500, 2_600), false)).toBe(true)
  })
  it('stays pinned when rows are smaller than estimated', () => {
    expect(pinnedAfter(true, at(1_500), at(1_300, 1_900), false)).toBe(true)
  })
  it('stays pinned when the composer grows', () => {
    expect(pinnedAfter(true, at(1_500), at(1_490, 2_000, 440), false)).toBe(true)
  })
  it('pins again when the user scrolls near the end', () => {
    expect(pinnedAfter(false, at(1_000), at(1_480), true)).toBe(true)
    expect(pinnedAfter(false, at(1_000), at(1_200), true)).toBe(false)
  })
  it('does not pin when older rows are added above', () => {
    expect(pinnedAfter(false, at(1_480), at(4_480, 5_000), false)).toBe(false)
  })
  it('does not pin when the user scrolls up near the end', () => {
    expect(pinnedAfter(false, at(1_490), at(1_480), true)).toBe(false)
  })
  it('pins a list that fits', () => {
    expect(pinnedAfter(false, at(0, 500), at(0, 400), false)).toBe(true)
  })
})
