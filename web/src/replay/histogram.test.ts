import { describe, expect, it } from 'vitest'
import { barsPath, bins } from './histogram'
import { clock } from './clock'

const events = [0, 1_000, 2_000, 3_000, 4_000].map((milliseconds) => ({ at: new Date(milliseconds).toISOString() }))

describe('bins', () => {
  it('count events per column and kind', () => {
    const marks = [
      { seq: 1, kind: 'edit' },
      { seq: 2, kind: 'edit' },
      { seq: 3, kind: 'error' },
      { seq: 5, kind: 'edit' },
    ]
    const counted = bins(marks, clock(events, false), 1, 2)
    expect([...(counted.counts.get('edit') ?? [])]).toEqual([2, 1])
    expect([...(counted.counts.get('error') ?? [])]).toEqual([0, 1])
  })

  it('use the first column if the log has no duration', () => {
    const counted = bins([{ seq: 1, kind: 'edit' }], clock(events.slice(0, 1), false), 1, 8)
    expect(counted.counts.get('edit')?.[0]).toBe(1)
  })

  it('have the same number of columns for any length of log', () => {
    const long = Array.from({ length: 50_000 }, (_, index) => ({ at: new Date(index * 100).toISOString() }))
    const marks = long.map((_, index) => ({ seq: index + 1, kind: 'tool' }))
    const path = barsPath(bins(marks, clock(long, true), 1, 300).counts.get('tool') ?? new Uint32Array())
    expect(path.split('M')).toHaveLength(301)
  })

  it('draw no bar for zero and a visible bar for one', () => {
    expect(barsPath(new Uint32Array([0, 1, 0, 1000]))).toBe('M1 1V0.54h1V1zM3 1V0.00h1V1z')
  })
})
