import { describe, expect, it } from 'vitest'
import type { Command } from '../../../timeline/run'
import { commandList, outcomeOf } from './command-list'

const command = (text: string, more: Partial<Command> = {}): Command => ({
  seq: 1,
  toolUseId: null,
  command: text,
  description: null,
  output: '',
  exitCode: null,
  status: 'done',
  at: '2026-01-01T00:00:00Z',
  durationMs: 5,
  rest: null,
  ...more,
})

const plain = (text: string) => text.replaceAll('<red>', '')
const shown = (commands: Command[], search: string, onlyFailed = false) =>
  commandList(commands, search, onlyFailed, plain)

describe('the list of commands', () => {
  const commands = [
    command('cargo test', { output: 'line one\n<red>ERR<red>OR here\nanother error' }),
    command('ls', { description: 'Look for errors' }),
    command('make', { output: null, status: 'running' }),
    command('false', { status: 'failed', exitCode: 1 }),
  ]

  it('shows all commands without a search', () => {
    expect(shown(commands, ' ').map((each) => each.found)).toEqual([null, null, null, null])
  })

  it('searches text, description and output, ignoring case and colours', () => {
    const found = shown(commands, 'Error')
    expect(found.map((each) => each.command.command)).toEqual(['cargo test', 'ls'])
    expect(found[0]?.found?.lines).toEqual([
      { number: 2, text: 'ERROR here' },
      { number: 3, text: 'another error' },
    ])
    expect(found[1]?.found?.lines).toEqual([])
  })

  it('limits the matching lines and counts the others', () => {
    const [found] = shown([command('yes', { output: 'y\n'.repeat(100) })], 'y')
    expect(found?.found?.lines).toHaveLength(20)
    expect(found?.found?.more).toBe(80)
  })

  it('can be limited to failed commands', () => {
    expect(shown(commands, '', true).map((each) => each.command.command)).toEqual(['false'])
  })
})

describe('the outcome of a command', () => {
  it.each([
    [{ status: 'running', output: null }, 'running', 'Running'],
    [{ status: 'done', exitCode: 0 }, 'done', 'Done'],
    [{ status: 'done' }, 'done', 'Done'],
    [{ status: 'failed' }, 'failed', 'Failed'],
    [{ status: 'failed', exitCode: 2 }, 'failed', 'Failed with exit code 2'],
    [{ status: 'failed', exitCode: 127 }, 'failed', 'Failed with exit code 127: command not found'],
    [{ status: 'done', exitCode: 1 }, 'failed', 'Failed with exit code 1'],
    [{ status: 'interrupted' }, 'interrupted', 'Interrupted'],
    [{ status: 'denied' }, 'failed', 'Permission denied'],
  ] as const)('%j is %s: %s', (more, kind, label) => {
    expect(outcomeOf(command('x', more))).toEqual({ kind, label })
  })
})
