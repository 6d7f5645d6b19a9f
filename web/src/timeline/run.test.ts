import { describe, expect, it } from 'vitest'
import {
  completion,
  decided,
  done,
  edit,
  injected,
  invoked,
  log,
  queued,
  queuedAgain,
  receipt,
  started,
  system,
  text,
  todo,
  eventOf,
  turn,
  call,
  type EventInput,
} from './fixtures'
import { marks } from './marks'
import { advance, emptyRun } from './run'

const run = (...events: EventInput[]) => advance(emptyRun, log(...events))
const bash = (id: string, command: string, parent?: string) =>
  call(id, 'Bash', { command, description: 'Do it' }, parent)
const ended = (id: string, command: string, output: string, more = {}) =>
  completion(id, 'Bash', { command }, output, more)

describe('a run', () => {
  it('starts and ends with its agent', () => {
    expect(run(eventOf('sandbox.running'), started(), text('x'), done())).toMatchObject({
      last: 4,
      startedAt: '2026-01-01T00:00:02.000Z',
      endedAt: '2026-01-01T00:00:04.000Z',
      outcome: 'completed',
      stopReason: 'completed',
      sessionId: 's-1',
      model: 'opus',
      agent: 'claude',
    })
  })

  it('shows how its agent is isolated', () => {
    expect(run(started()).isolation).toBeNull()
    const notCovered = ['It reads all files.', 'It reaches the network.']
    const none = eventOf('worker.isolation', { tier: 'none', not_covered: [...notCovered, 7] })
    expect(run(none)).toMatchObject({ isolation: 'none', notCovered })
    const restarted = eventOf('worker.isolation', { tier: 'namespaces', not_covered: [] })
    expect(run(none, restarted)).toMatchObject({ isolation: 'namespaces', notCovered: [] })
  })

  it('that was terminated has an end but no outcome', () => {
    expect(run(started(), eventOf('sandbox.terminated', { reason: 'too slow' }))).toMatchObject({
      outcome: null,
      stopReason: 'too slow',
      endedAt: '2026-01-01T00:00:02.000Z',
    })
  })

  it('stays completed when its sandbox is terminated', () => {
    expect(run(done(), eventOf('sandbox.terminated', { reason: 'late' }))).toMatchObject({
      outcome: 'completed',
      stopReason: 'completed',
    })
  })

  it('fails with its agent or its sandbox', () => {
    expect(run(eventOf('agent.failed', { stop_reason: 'error' }))).toMatchObject({
      outcome: 'failed',
      stopReason: 'error',
    })
    expect(run(eventOf('sandbox.failed', { reason: 'provisioning_failed' }))).toMatchObject({
      outcome: 'failed',
      stopReason: 'provisioning_failed',
    })
  })

  it('sums the cost of its turns, including those after the task', () => {
    expect(
      run(turn(), turn({ total_cost_usd: 0.5 }), done({ cost_usd: 0.5, input_tokens: 200 }), turn()),
    ).toMatchObject({ costUsd: 0.75, inputTokens: 300, outputTokens: 60, cacheReadTokens: 15, cacheWriteTokens: 21 })
  })

  it('uses reported totals if there are no turn events', () => {
    expect(run(done({ cost_usd: 0.5 }), done({ cost_usd: 0.75 }))).toMatchObject({ costUsd: 0.75, inputTokens: 100 })
  })

  it('counts a message that is sent again once', () => {
    const failed = receipt('m', 'undeliverable', { deliveries: 10 })
    expect(run(queued('m', 'x'), failed, queuedAgain('m', 'x', 2), queued('n', 'y')).counts.messages).toBe(2)
  })

  it('counts events by kind', () => {
    const { counts, turns, errors } = run(
      queued('m', 'x'),
      injected('m', 'x'),
      bash('a', 'false'),
      ended('a', 'false', 'Exit code 1\nno', { is_error: true }),
      invoked('s', 'look'),
      edit('a', 'a'),
      turn(),
      eventOf('agent.error', { error: 'boom' }),
    )
    expect(counts).toEqual({ events: 8, toolUses: 2, fileEdits: 1, messages: 1, errors: 2 })
    expect(turns).toBe(2)
    expect(errors.map(({ seq, text }) => [seq, text])).toEqual([
      [4, 'Bash: Exit code 1'],
      [8, 'boom'],
    ])
  })

  it('has the current plan without those of sub-agents', () => {
    const theirs = {
      ...todo('b', ['Theirs', 'pending']),
      data: { ...todo('b', ['Theirs', 'pending']).data, parent_tool_use_id: 's' },
    }
    expect(run(todo('a', ['Mine', 'pending']), theirs, todo('c', ['Mine', 'completed'])).plan).toEqual([
      { text: 'Mine', status: 'completed' },
    ])
  })

  it('stops the preview when the sandbox ends', () => {
    const ready = eventOf('preview.ready', { port: 3000, url: 'http://localhost:3000' })
    for (const end of [
      'sandbox.completed',
      'sandbox.failed',
      'sandbox.terminated',
      'sandbox.terminated_idle',
      'sandbox.released',
    ]) {
      expect(run(ready, eventOf(end)).preview).toMatchObject({ status: 'stopped' })
    }
    expect(run(ready, eventOf('agent.completed')).preview).toMatchObject({ status: 'ready' })
    expect(
      run(eventOf('preview.failed', { port: 3000, error: 'no answer' }), eventOf('sandbox.completed')).preview,
    ).toMatchObject({ status: 'failed' })
  })
  it('shows the preview that became ready last', () => {
    const ready = (port: number) =>
      eventOf('preview.ready', { port, url: `http://localhost:${port}`, framework: 'vite' })
    expect(run(eventOf('preview.starting', { port: 3000 }), ready(3000)).preview).toEqual({
      status: 'ready',
      port: 3000,
      forwardedPort: null,
      url: 'http://localhost:3000',
      framework: 'vite',
      seq: 2,
    })
    const forwarded = eventOf('preview.ready', { port: 3000, forwarded_port: 40001 })
    expect(run(forwarded).preview).toMatchObject({ port: 3000, forwardedPort: 40001 })
    expect(run(ready(3000), eventOf('preview.starting', { port: 4000 })).preview).toMatchObject({
      port: 3000,
      status: 'ready',
    })
    expect(run(ready(3000), ready(4000)).preview).toMatchObject({ port: 4000 })
    expect(run(ready(3000), eventOf('preview.stopped', { port: 3000 })).preview).toMatchObject({
      status: 'stopped',
      url: 'http://localhost:3000',
    })
  })

  it('is not modified when it is advanced', () => {
    const events = log(bash('a', 'ls'), edit('x', 'a'), ended('a', 'ls', 'x'), edit('x', 'a'))
    const half = advance(emptyRun, events.slice(0, 2))
    const before = structuredClone({ files: half.files, commands: half.commands })
    expect(advance(half, events)).toEqual(advance(emptyRun, events))
    expect({ files: half.files, commands: half.commands }).toEqual(before)
  })
})

describe('files', () => {
  const files = (...events: EventInput[]) =>
    run(...events).files.map(({ path, status, added, removed, changes }) => [
      path,
      status,
      added,
      removed,
      changes.length,
    ])

  it('are listed once per path in the order of the first change', () => {
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

  it('keep their history when they are renamed', () => {
    expect(
      files(edit('old', null), edit('new', null, { change_type: 'renamed', previous_path: 'old' }), edit('new', null)),
    ).toEqual([['new', 'renamed', 3, 3, 3]])
  })
})

describe('commands', () => {
  it('are tracked from start to end', () => {
    const { commands } = run(
      bash('a', 'ls'),
      call('r', 'Read', { file_path: 'x' }),
      ended('a', 'ls', 'README.md'),
      bash('b', 'sleep 9'),
    )
    expect(commands).toMatchObject([
      {
        seq: 1,
        toolUseId: 'a',
        command: 'ls',
        description: 'Do it',
        output: 'README.md',
        exitCode: 0,
        status: 'done',
        durationMs: 12,
        rest: null,
      },
      { seq: 4, command: 'sleep 9', output: null, exitCode: null, status: 'running' },
    ])
  })

  it('that failed have their exit code', () => {
    expect(run(bash('a', 'x'), ended('a', 'x', 'Exit code 127\nnot found', { is_error: true })).commands).toMatchObject(
      [{ status: 'failed', exitCode: 127 }],
    )
  })

  it('without permission are denied', () => {
    expect(run(bash('a', 'x'), decided('a', 'deny'), ended('a', 'x', 'no', { is_error: true })).commands).toMatchObject(
      [{ status: 'denied', exitCode: null }],
    )
  })

  it('are interrupted with their agent unless a completion arrives', () => {
    expect(run(bash('a', 'x'), eventOf('agent.stream_error', { error: 'killed' })).commands).toMatchObject([
      { status: 'interrupted', output: null },
    ])
    expect(
      run(bash('a', 'x'), eventOf('agent.stream_error', { error: 'killed' }), ended('a', 'x', 'late')).commands,
    ).toMatchObject([{ status: 'done', output: 'late' }])
  })

  it('are interrupted when the sandbox is released', () => {
    expect(run(bash('a', 'x'), eventOf('sandbox.released')).commands).toMatchObject([{ status: 'interrupted' }])
  })

  it('of a background sub-agent outlive the turn', () => {
    const background = [
      invoked('s', 'look'),
      system('task_started', { tool_use_id: 's', is_backgrounded: true }),
      bash('a', 'x', 's'),
      bash('b', 'y'),
      turn(),
    ]
    expect(run(...background).commands.map((command) => command.status)).toEqual(['running', 'interrupted'])
  })

  it('without ids are matched by their text, oldest first', () => {
    const anonymous = eventOf('agent.tool_completed', {
      tool: 'Bash',
      tool_input: { command: 'ls' },
      tool_response: 'first',
    })
    expect(run(bash('a', 'ls'), bash('b', 'ls'), anonymous).commands.map((command) => command.output)).toEqual([
      'first',
      null,
    ])
  })

  it('with structured output are formatted as terminal output', () => {
    const answer = eventOf('agent.tool_completed', {
      tool: 'Bash',
      tool_use_id: 'a',
      tool_response: { stdout: 'out', stderr: 'err', exit_code: 3 },
    })
    expect(run(bash('a', 'ls'), answer).commands).toMatchObject([{ output: 'out\nerr', exitCode: 3 }])
  })

  it('with truncated output refer to the full output', () => {
    const long = { ...ended('a', 'ls', 'emptyRun', { tool_response_truncated: true }), omitted: ['full_response'] }
    expect(run(bash('a', 'ls'), long).commands).toMatchObject([{ output: 'emptyRun', rest: 2 }])
  })
})

it('marks cover errors, edits, messages, turns and tools', () => {
  const events = log(
    text('x'),
    bash('a', 'false'),
    ended('a', 'false', 'no', { is_error: true }),
    edit('a', 'a'),
    queued('m', 'x'),
    injected('m', 'x'),
    turn(),
    eventOf('agent.failed', { error: 'boom' }),
  )
  expect(marks(events).map(({ seq, kind }) => [seq, kind])).toEqual([
    [2, 'tool'],
    [3, 'error'],
    [4, 'edit'],
    [5, 'message'],
    [7, 'turn'],
    [8, 'error'],
  ])
})
