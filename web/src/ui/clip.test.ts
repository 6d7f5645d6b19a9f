import { describe, expect, it } from 'vitest'
import { clip, countLines } from './clip'

describe('clip', () => {
  it('leaves a short text alone', () => {
    expect(clip('a\nb\n', 2)).toEqual({ head: 'a\nb\n', hiddenLines: 0, totalLines: 2, whole: true })
  })
  it('cuts between lines and counts the rest', () => {
    expect(clip('a\nb\nc\nd\n', 2)).toEqual({ head: 'a\nb', hiddenLines: 2, totalLines: 4, whole: false })
  })
  it('cuts a single line that is a whole file', () => {
    const cut = clip('x'.repeat(100_000), 25)
    expect(cut.head).toHaveLength(10_000)
    expect(cut).toMatchObject({ whole: false, hiddenLines: 0, totalLines: 1 })
  })
  it('counts lines as people do', () => {
    expect([countLines(''), countLines('a'), countLines('a\n'), countLines('a\nb'), countLines('\n')]).toEqual([0, 1, 1, 2, 1])
  })
})
