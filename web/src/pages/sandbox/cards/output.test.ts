import { describe, expect, it } from 'vitest'
import { exitCode, mcpName, outputText, withoutExitCode, replacementDiff } from './output'

describe('outputText', () => {
  it.each([
    [null, ''],
    ['plain', 'plain'],
    [{ stdout: 'out', stderr: 'err' }, 'out\nerr'],
    [
      [
        { type: 'text', text: 'one' },
        { type: 'text', text: 'two' },
      ],
      'one\ntwo',
    ],
    [{ content: [{ type: 'text', text: 'one' }] }, 'one'],
    [{ other: 1 }, '{\n  "other": 1\n}'],
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
    ['Output: Exit code 2', null],
  ])('of %j is %s', (output, code) => {
    expect(exitCode(output)).toBe(code)
  })
  it('is removed from the output', () => {
    expect(withoutExitCode('Exit code 2\nboom')).toBe('boom')
  })
})

describe('helpers', () => {
  it('parse the name of an MCP tool', () => {
    expect(mcpName('mcp__my_server__do__it')).toEqual({ server: 'my_server', tool: 'do__it' })
    expect(mcpName('Bash')).toBeNull()
  })
  it('create a diff from a replacement', () => {
    expect(replacementDiff('a\nb\n', 'c')).toBe('@@ -1,2 +1,1 @@\n-a\n-b\n+c')
    expect(replacementDiff('', 'c')).toBe('@@ -1,0 +1,1 @@\n+c')
  })
})
