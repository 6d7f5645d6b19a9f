import { describe, expect, it } from 'vitest'
import { exitCode, mcpName, outputText, withoutExitCode, wordsAsDiff } from './output'

describe('outputText', () => {
  it.each([
    [null, ''],
    ['plain', 'plain'],
    [{ stdout: 'out', stderr: 'err' }, 'out\nerr'],
    [[{ type: 'text', text: 'one' }, { type: 'text', text: 'two' }], 'one\ntwo'],
    [{ content: [{ type: 'text', text: 'one' }] }, 'one'],
    [{ odd: 1 }, '{\n  "odd": 1\n}'],
    [[{ type: 'image' }], '[\n  {\n    "type": "image"\n  }\n]'],
    [true, 'true'],
  ])('reads %j', (output, text) => {
    expect(outputText(output)).toBe(text)
  })
})

describe('exitCode', () => {
  it.each([
    ['Exit code 2\nboom', 2],
    [{ exit_code: 1 }, 1],
    [{ stdout: '' }, null],
    ['It says: Exit code 2', null],
  ])('finds in %j %s', (output, code) => {
    expect(exitCode(output)).toBe(code)
  })
  it('is not said twice', () => {
    expect(withoutExitCode('Exit code 2\nboom')).toBe('boom')
  })
})

describe('names and words', () => {
  it('takes the name of a server’s tool apart', () => {
    expect(mcpName('mcp__my_server__do__it')).toEqual({ server: 'my_server', tool: 'do__it' })
    expect(mcpName('Bash')).toBeNull()
  })
  it('makes a diff of words', () => {
    expect(wordsAsDiff('a\nb\n', 'c')).toBe('@@ -1,2 +1,1 @@\n-a\n-b\n+c')
    expect(wordsAsDiff('', 'c')).toBe('@@ -1,0 +1,1 @@\n+c')
  })
})
