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
const shown = (commands: Command[], search: string, onlyFailed = false) => commandList(commands, search, onlyFailed, plain)

describe('the list of commands', () => {
  const commands = [
    command('cargo test', { output: 'line one\n<red>ERR<red>OR here\nanother error' }),
    command('ls', { description: 'Look for errors' }),
    command('make', { output: null, status: 'running' }),
    command('false', { status: 'failed', exitCode: 1 }),
  ]

  it('shows all with all of their output while nobody looks for anything', () => {
    expect(shown(commands, ' ').map((each) => each.found)).toEqual([null, null, null, null])
  })

  it('finds commands by text, description and output, whatever the case and colours, with the lines that have it', () => {
    const found = shown(commands, 'Error')
    expect(found.map((each) => each.command.command)).toEqual(['cargo test', 'ls'])
    expect(found[0]?.found?.lines).toEqual([
      { number: 2, text: 'ERROR here' },
      { number: 3, text: 'another error' },
    ])
    expect(found[1]?.found?.lines).toEqual([])
  })

  it('lists few lines of an output that has many, and counts the others', () => {
    const [found] = shown([command('yes', { output: 'y\n'.repeat(100) })], 'y')
    expect(found?.found?.lines).toHaveLength(20)
    expect(found?.found?.more).toBe(80)
  })

  it('can be only those that failed', () => {
    expect(shown(commands, '', true).map((each) => each.command.command)).toEqual(['false'])
  })
})

describe('how a command ended', () => {
  it.each([
    [{ status: 'running', output: null }, 'running', 'Running'],
    [{ status: 'done', exitCode: 0 }, 'done', 'Done'],
    [{ status: 'done' }, 'done', 'Done'],
    [{ status: 'failed' }, 'failed', 'Failed'],
    [{ status: 'failed', exitCode: 2 }, 'failed', 'Failed with exit code 2'],
    [{ status: 'failed', exitCode: 127 }, 'failed', 'Failed with exit code 127: there is no such command'],
    [{ status: 'done', exitCode: 1 }, 'failed', 'Failed with exit code 1'],
    [{ status: 'interrupted' }, 'interrupted', 'Its agent ended before it'],
    [{ status: 'refused' }, 'failed', 'Not allowed'],
  ] as const)('%j is %s: %s', (more, kind, words) => {
    expect(outcomeOf(command('x', more))).toEqual({ kind, words })
  })
})
