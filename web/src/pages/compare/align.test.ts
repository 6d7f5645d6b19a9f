import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { align } from './align'

/** "a1" is content 1 of kind a. */
const list = (text: string) => text.split(' ').filter(Boolean).map((word) => ({ kind: word.charAt(0), content: word }))
const shown = (left: string, right: string) =>
  align(list(left), list(right)).map((pair) => `${pair.left?.content ?? '-'}|${pair.right?.content ?? '-'}`)

describe('aligning two runs', () => {
  it('puts what is the same side by side, and leaves gaps where one has more', () => {
    expect(shown('a1 b1 c1', 'a1 c1')).toEqual(['a1|a1', 'b1|-', 'c1|c1'])
    expect(shown('', 'a1')).toEqual(['-|a1'])
    expect(shown('', '')).toEqual([])
  })

  it('puts steps of one kind side by side where they differ', () => {
    expect(shown('a1 b1 c1', 'a1 b2 c1')).toEqual(['a1|a1', 'b1|b2', 'c1|c1'])
    expect(align(list('b1'), list('b2'))[0]?.match).toBe('different')
  })

  it('prefers what is the same to what is only of the same kind', () => {
    expect(shown('b1 b2', 'b2')).toEqual(['b1|-', 'b2|b2'])
  })

  it('does not put different kinds side by side', () => {
    expect(shown('a1', 'b1')).toEqual(['a1|-', '-|b1'])
  })

  it('keeps every step of both runs, in order and once, whatever they are', () => {
    const word = fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.nat({ max: 3 })).map(([kind, n]) => ({ kind, content: `${kind}${n}` }))
    fc.assert(
      fc.property(fc.array(word, { maxLength: 30 }), fc.array(word, { maxLength: 30 }), (left, right) => {
        const pairs = align(left, right)
        expect(pairs.flatMap((pair) => pair.left ?? [])).toEqual(left)
        expect(pairs.flatMap((pair) => pair.right ?? [])).toEqual(right)
        for (const pair of pairs) {
          const same = pair.left !== null && pair.right !== null && pair.left.content === pair.right.content
          expect(pair.match === 'same').toBe(same)
        }
      }),
    )
  })

  it('calls a run the same as itself, step by step', () => {
    const word = fc.nat({ max: 5 }).map((n) => ({ kind: 'a', content: `a${n}` }))
    fc.assert(
      fc.property(fc.array(word, { maxLength: 40 }), (run) => {
        expect(align(run, run).every((pair) => pair.match === 'same')).toBe(true)
      }),
    )
  })

  it('is done soon with runs of thousands of steps', () => {
    const long = (salt: string) => Array.from({ length: 20_000 }, (_, n) => ({ kind: 'a', content: n % 3 === 0 ? `a${n}` : `a${n}${salt}` }))
    const begun = process.cpuUsage()
    expect(align(long('left'), long('right'))).toHaveLength(20_000)
    expect(process.cpuUsage(begun).user / 1000).toBeLessThan(2_000)
  })
})
