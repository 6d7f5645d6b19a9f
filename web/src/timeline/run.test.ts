import { describe, expect, it } from 'vitest'
import { completion, decided, done, edit, injected, invoked, log, queued, started, system, text, todo, told, turn, call, type Told } from './fixtures'
import { marks } from './marks'
import { advance, begin } from './run'

const run = (...happened: Told[]) => advance(begin, log(...happened))
const bash = (id: string, command: string, parent?: string) => call(id, 'Bash', { command, description: 'Do it' }, parent)
const ended = (id: string, command: string, output: string, more = {}) => completion(id, 'Bash', { command }, output, more)

describe('a run', () => {
  it('begins and ends with its agent', () => {
    expect(run(told('sandbox.running'), started(), text('x'), done())).toMatchObject({ last: 4, startedAt: '2026-01-01T00:00:02.000Z', endedAt: '2026-01-01T00:00:04.000Z', outcome: 'completed', stopReason: 'completed', sessionId: 's-1', model: 'opus', agent: 'claude' })
  })

  it('that nobody finished has an end and no outcome', () => {
    expect(run(started(), told('sandbox.terminated', { reason: 'too slow' }))).toMatchObject({ outcome: null, stopReason: 'too slow', endedAt: '2026-01-01T00:00:02.000Z' })
  })

  it('that was done stays done when its sandbox goes', () => {
    expect(run(done(), told('sandbox.terminated', { reason: 'late' }))).toMatchObject({ outcome: 'completed', stopReason: 'completed' })
  })

  it('fails with its agent or its sandbox', () => {
    expect(run(told('agent.failed', { stop_reason: 'error' }))).toMatchObject({ outcome: 'failed', stopReason: 'error' })
    expect(run(told('sandbox.failed', { reason: 'not_made' }))).toMatchObject({ outcome: 'failed', stopReason: 'not_made' })
  })

  it('costs what its turns cost, also those after the task', () => {
    expect(run(turn(), turn({ total_cost_usd: 0.5 }), done({ cost_usd: 0.5, input_tokens: 200 }), turn())).toMatchObject({ costUsd: 0.75, inputTokens: 300, outputTokens: 60, cacheReadTokens: 15, cacheWriteTokens: 21 })
  })

  it('costs what somebody says where turns are not told', () => {
    expect(run(done({ cost_usd: 0.5 }), done({ cost_usd: 0.75 }))).toMatchObject({ costUsd: 0.75, inputTokens: 100 })
  })

  it('counts', () => {
    const { counts, turns, errors } = run(queued('m', 'x'), injected('m', 'x'), bash('a', 'false'), ended('a', 'false', 'Exit code 1\nno', { is_error: true }), invoked('s', 'look'), edit('a', 'a'), turn(), told('agent.error', { error: 'boom' }))
    expect(counts).toEqual({ events: 8, toolUses: 2, fileEdits: 1, messages: 1, errors: 2 })
    expect(turns).toBe(2)
    expect(errors.map(({ seq, text }) => [seq, text])).toEqual([
      [4, 'Bash: Exit code 1'],
      [8, 'boom'],
    ])
  })

  it('knows the plan as it stands, without those of sub-agents', () => {
    const theirs = { ...todo('b', ['Theirs', 'pending']), data: { ...todo('b', ['Theirs', 'pending']).data, parent_tool_use_id: 's' } }
    expect(run(todo('a', ['Mine', 'pending']), theirs, todo('c', ['Mine', 'completed'])).plan).toEqual([{ text: 'Mine', status: 'completed' }])
  })

  it('shows no preview of a sandbox that is gone', () => {
    const ready = told('preview.ready', { port: 3000, url: 'http://localhost:3000' })
    for (const end of ['sandbox.completed', 'sandbox.failed', 'sandbox.terminated', 'sandbox.terminated_idle', 'sandbox.released']) {
      expect(run(ready, told(end)).preview).toMatchObject({ status: 'stopped' })
    }
    expect(run(ready, told('agent.completed')).preview).toMatchObject({ status: 'ready' })
    expect(run(told('preview.failed', { port: 3000, error: 'no answer' }), told('sandbox.completed')).preview).toMatchObject({ status: 'failed' })
  })
  it('shows the preview that was ready last', () => {
    const ready = (port: number) => told('preview.ready', { port, url: `http://localhost:${port}`, framework: 'vite' })
    expect(run(told('preview.starting', { port: 3000 }), ready(3000)).preview).toEqual({ status: 'ready', port: 3000, url: 'http://localhost:3000', framework: 'vite', seq: 2 })
    expect(run(ready(3000), told('preview.starting', { port: 4000 })).preview).toMatchObject({ port: 3000, status: 'ready' })
    expect(run(ready(3000), ready(4000)).preview).toMatchObject({ port: 4000 })
    expect(run(ready(3000), told('preview.stopped', { port: 3000 })).preview).toMatchObject({ status: 'stopped', url: 'http://localhost:3000' })
  })

  it('stays as it is when it goes on', () => {
    const events = log(bash('a', 'ls'), edit('x', 'a'), ended('a', 'ls', 'x'), edit('x', 'a'))
    const half = advance(begin, events.slice(0, 2))
    const before = structuredClone({ files: half.files, commands: half.commands })
    expect(advance(half, events)).toEqual(advance(begin, events))
    expect({ files: half.files, commands: half.commands }).toEqual(before)
  })
})

describe('files', () => {
  const files = (...happened: Told[]) => run(...happened).files.map(({ path, status, added, removed, changes }) => [path, status, added, removed, changes.length])

  it('are one for each path, in the order of their first change', () => {
    expect(files(edit('b', null), edit('a', null), edit('b', null))).toEqual([
      ['b', 'modified', 2, 2, 2],
      ['a', 'modified', 1, 1, 1],
    ])
  })

  it.each([
    [['created', 'modified'], 'created'],
    [['created', 'deleted'], 'deleted'],
    [['deleted', 'created'], 'modified'],
    [['modified', 'deleted'], 'deleted'],
  ])('that were %j are %s', (changes, expected) => {
    expect(files(...changes.map((change_type) => edit('a', null, { change_type })))).toEqual([['a', expected, 2, 2, 2]])
  })

  it('keep their past under a new name', () => {
    expect(files(edit('old', null), edit('new', null, { change_type: 'renamed', previous_path: 'old' }), edit('new', null))).toEqual([['new', 'renamed', 3, 3, 3]])
  })
})

describe('commands', () => {
  it('are what ran in a shell, from start to end', () => {
    const { commands } = run(bash('a', 'ls'), call('r', 'Read', { file_path: 'x' }), ended('a', 'ls', 'README.md'), bash('b', 'sleep 9'))
    expect(commands).toMatchObject([
      { seq: 1, toolUseId: 'a', command: 'ls', description: 'Do it', output: 'README.md', exitCode: 0, status: 'done', durationMs: 12, rest: null },
      { seq: 4, command: 'sleep 9', output: null, exitCode: null, status: 'running' },
    ])
  })

  it('that failed tell their exit code', () => {
    expect(run(bash('a', 'x'), ended('a', 'x', 'Exit code 127\nnot found', { is_error: true })).commands).toMatchObject([{ status: 'failed', exitCode: 127 }])
  })

  it('that were refused did not run', () => {
    expect(run(bash('a', 'x'), decided('a', 'deny'), ended('a', 'x', 'no', { is_error: true })).commands).toMatchObject([{ status: 'refused', exitCode: null }])
  })

  it('end with their agent, unless somebody tells how they ended', () => {
    expect(run(bash('a', 'x'), told('agent.stream_error', { error: 'killed' })).commands).toMatchObject([{ status: 'interrupted', output: null }])
    expect(run(bash('a', 'x'), told('agent.stream_error', { error: 'killed' }), ended('a', 'x', 'late')).commands).toMatchObject([{ status: 'done', output: 'late' }])
  })

  it('of a sub-agent in the background outlive the turn', () => {
    const background = [invoked('s', 'look'), system('task_started', { tool_use_id: 's', is_backgrounded: true }), bash('a', 'x', 's'), bash('b', 'y'), turn()]
    expect(run(...background).commands.map((command) => command.status)).toEqual(['running', 'interrupted'])
  })

  it('without ids are matched by what they run, the oldest first', () => {
    const anonymous = told('agent.tool_completed', { tool: 'Bash', tool_input: { command: 'ls' }, tool_response: 'first' })
    expect(run(bash('a', 'ls'), bash('b', 'ls'), anonymous).commands.map((command) => command.output)).toEqual(['first', null])
  })

  it('that answer in fields are printed as a terminal would', () => {
    const answer = told('agent.tool_completed', { tool: 'Bash', tool_use_id: 'a', tool_response: { stdout: 'out', stderr: 'err', exit_code: 3 } })
    expect(run(bash('a', 'ls'), answer).commands).toMatchObject([{ output: 'out\nerr', exitCode: 3 }])
  })

  it('that printed much say where the rest is', () => {
    const long = { ...ended('a', 'ls', 'begin', { tool_response_truncated: true }), omitted: ['full_response'] }
    expect(run(bash('a', 'ls'), long).commands).toMatchObject([{ output: 'begin', rest: 2 }])
  })
})

it('marks are the moments that somebody may want to jump to', () => {
  const events = log(text('x'), bash('a', 'false'), ended('a', 'false', 'no', { is_error: true }), edit('a', 'a'), queued('m', 'x'), injected('m', 'x'), turn(), told('agent.failed', { error: 'boom' }))
  expect(marks(events).map(({ seq, kind }) => [seq, kind])).toEqual([
    [2, 'tool'],
    [3, 'error'],
    [4, 'edit'],
    [5, 'message'],
    [7, 'turn'],
    [8, 'error'],
  ])
})
