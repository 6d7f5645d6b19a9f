import { describe, expect, it } from 'vitest'
import { pieces, plainText } from './ansi'

const escape = '\u001b'

describe('pieces', () => {
  it('maps colours to those of the console', () => {
    expect(pieces(`${escape}[31mred${escape}[0m and ${escape}[1;32mbold green${escape}[0m`)).toEqual([
      { text: 'red', className: 'text-bad' },
      { text: ' and ', className: undefined },
      { text: 'bold green', className: 'text-good font-semibold' },
    ])
  })
  it.each([
    ['38;5;208', 'text-warn'],
    ['38;2;30;90;255', 'text-info'],
    ['95', 'text-accent'],
    ['36', 'text-info'],
    ['90', 'text-ink-soft'],
    ['2', 'text-ink-faint'],
    ['7;31', 'text-ink-soft bg-bad-soft'],
    ['37;41', 'text-ink-soft bg-bad-soft'],
  ])('shows %s as %s', (code, className) => {
    expect(pieces(`${escape}[${code}mword`)).toEqual([{ text: 'word', className }])
  })
  it('shows the final state of an overwritten line', () => {
    expect(plainText('10%\r50%\r100%\r\ndone\r\n')).toBe('100%\ndone\n')
  })
  it('removes control sequences', () => {
    expect(plainText(`${escape}]0;title\u0007a${escape}[2Kb${escape}[?25lc`)).toBe('abc')
  })
})
