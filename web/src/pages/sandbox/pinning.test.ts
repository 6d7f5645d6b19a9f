import { describe, expect, it } from 'vitest'
import { pinnedAfter } from './pinning'

const at = (top: number, height = 2_000, view = 500) => ({ top, height, view })

describe('pinnedAfter', () => {
  it('lets go when the reader moves up, by however little', () => {
    expect(pinnedAfter(true, at(1_500), at(1_497), true)).toBe(false)
  })
  it('lets go when something else scrolls up, such as a search in the page', () => {
    expect(pinnedAfter(true, at(1_500), at(200), false)).toBe(false)
  })
  it('lets go when the reader moves up while rows are added', () => {
    expect(pinnedAfter(true, at(1_500), at(1_480, 2_300), true)).toBe(false)
  })
  it('holds on when rows are added', () => {
    expect(pinnedAfter(true, at(1_500), at(1_500, 2_600), false)).toBe(true)
  })
  it('holds on when rows turn out smaller than was thought', () => {
    expect(pinnedAfter(true, at(1_500), at(1_300, 1_900), false)).toBe(true)
  })
  it('holds on when the composer grows and the view shrinks', () => {
    expect(pinnedAfter(true, at(1_500), at(1_490, 2_000, 440), false)).toBe(true)
  })
  it('takes hold again when the reader comes near the end', () => {
    expect(pinnedAfter(false, at(1_000), at(1_480), true)).toBe(true)
    expect(pinnedAfter(false, at(1_000), at(1_200), true)).toBe(false)
  })
  it('does not take hold because older rows came in above', () => {
    expect(pinnedAfter(false, at(1_480), at(4_480, 5_000), false)).toBe(false)
  })
  it('does not take hold of a reader who moves up near the end', () => {
    expect(pinnedAfter(false, at(1_490), at(1_480), true)).toBe(false)
  })
  it('holds a list that fits', () => {
    expect(pinnedAfter(false, at(0, 500), at(0, 400), false)).toBe(true)
  })
})
