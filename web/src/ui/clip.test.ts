import { describe, expect, it } from 'vitest'
import { clip, countLines } from './clip'

describe('clip', () => {
  it('keeps a short text', () => {
    expect(clip('a\nb\n', 2)).toEqual({ start: 'a\nb\n', hiddenLines: 0, totalLines: 2, complete: true })
  })
  it('cuts between lines and counts the hidden ones', () => {
    expect(clip('a\nb\nc\nd\n', 2)).toEqual({ start: 'a\nb', hiddenLines: 2, totalLines: 4, complete: false })
  })
  it('cuts a very long line', () => {
    const cut = clip('x'.repeat(100_000), 25)
    expect(cut.start).toHaveLength(10_000)
    expect(cut).toMatchObject({ complete: false, hiddenLines: 0, totalLines: 1 })
  })
  it('does not count a trailing newline as a line', () => {
    expect([countLines(''), countLines('a'), countLines('a\n'), countLines('a\nb'), countLines('\n')]).toEqual([
      0, 1, 1, 2, 1,
    ])
  })
})
