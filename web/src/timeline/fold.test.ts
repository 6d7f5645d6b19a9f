import { describe, expect, it } from 'vitest'
import { EVENT_TYPES } from '../api/contract'
import { completion, done, heard, injected, invoked, log, numbered, queued, receipt, started, system, text, thinking, todo, told, turn, call, whole, type Told } from './fixtures'
import { empty, extend, fold, rowsOfEvents } from './fold'

const rows = (...happened: Told[]) => fold(log(...happened)).rows

describe('a message', () => {
  const way = [queued('m', 'Use SQLite.'), receipt('m', 'fetched', { delivery: 1 }), injected('m', 'Use SQLite.'), receipt('m', 'delivered'), heard('uuid-m', 'Use SQLite.', { turn: 1 }), receipt('m', 'started'), receipt('m', 'completed', { detail: 'done with it' })]

  it('is one row with all its receipts', () => {
    const [row, ...more] = rows(...way)
    expect(more).toEqual([])
    expect(row).toMatchObject({ kind: 'said', key: 'message:m', text: 'Use SQLite.', messageId: 'm', messageType: 'user_message', sender: { kind: 'user', id: 'u-1' }, synthetic: false })
    const states = row?.kind === 'said' ? row.receipts.map(({ state, detail }) => [state, detail]) : []
    expect(states).toEqual([
      ['queued', null],
      ['fetched', null],
      ['delivered', null],
      ['started', null],
      ['completed', 'done with it'],
    ])
  })

  it('that is handed out again was fetched the first time', () => {
    const [row] = rows(queued('m', 'x'), receipt('m', 'fetched'), receipt('m', 'fetched'))
    expect(row).toMatchObject({ lastSeq: 3, receipts: [{ state: 'queued' }, { state: 'fetched', at: '2026-01-01T00:00:02.000Z' }] })
  })

  it('of the guardian is echoed with a preface and still one row', () => {
    expect(rows(queued('m', 'x', 'guidance'), injected('m', 'x'), heard('uuid-m', '[Guidance]\nx', { turn: 1 }))).toMatchObject([{ messageType: 'guidance', text: 'x' }])
  })

  it('of an equal text is another message', () => {
    expect(rows(queued('m', 'x'), injected('m', 'x'), queued('n', 'x'), injected('n', 'x'))).toHaveLength(2)
  })

  it('that a worker takes without naming it is found by its text, once', () => {
    const taken = told('agent.message_injected', { message_type: 'user_message', content: 'x', message_id: null, sender_id: null })
    expect(rows(queued('m', 'x'), receipt('m', 'delivered', { last: true }), taken, heard(null, 'x'))).toMatchObject([{ key: 'message:m', lastSeq: 4 }])
    expect(rows(taken)).toMatchObject([{ kind: 'said', text: 'x', messageId: null }])
  })

  it('that was sent before the loaded part of the log is a line', () => {
    expect(fold(numbered([receipt('m', 'completed')], 90)).rows).toMatchObject([{ kind: 'line', tone: 'quiet' }])
  })
})

describe('what the agent reads', () => {
  it('first is its task', () => {
    expect(rows(started(), heard('p', 'Mend it.'), text('ok'))[1]).toMatchObject({ kind: 'said', messageType: 'task', key: 'task', sender: null, synthetic: false, receipts: [] })
  })

  it('later and from nobody is the worker speaking', () => {
    expect(rows(heard('p', 'Mend it.'), heard('q', 'Go on.', { turn: 3 }), heard('r', '[Request interrupted by user]', { synthetic: true }))).toMatchObject([{ messageType: 'task' }, { messageType: 'system', synthetic: true }, { messageType: 'system', synthetic: true }])
  })

  it('is not taken for the task where the beginning of the log is not loaded', () => {
    expect(fold(numbered([heard('q', 'Go on.')], 40)).rows).toMatchObject([{ messageType: 'system', synthetic: true }])
  })
})

describe('a plan', () => {
  it('is one row as it stands while nothing else happens', () => {
    const events = [todo('a', ['Write', 'pending'], ['Test', 'pending']), whole(), completion('a', 'TodoWrite', {}), todo('b', ['Write', 'completed'], ['Test', 'in_progress'])]
    expect(rows(...events)).toMatchObject([{ kind: 'plan', seq: 1, lastSeq: 4, items: [{ text: 'Write', status: 'completed' }, { text: 'Test', status: 'in_progress' }] }])
  })

  it('is shown again where it changes later', () => {
    const shown = rows(todo('a', ['Write', 'pending']), text('writing'), todo('b', ['Write', 'completed']))
    expect(shown.map((row) => row.kind)).toEqual(['plan', 'text', 'plan'])
    expect(shown[0]).toMatchObject({ items: [{ status: 'pending' }] })
  })

  it('of an ACP agent looks the same', () => {
    const entries = [{ content: 'Find it', priority: 'high', status: 'in_progress' }]
    expect(rows(told('agent.plan', { entries }))).toMatchObject([{ kind: 'plan', items: [{ text: 'Find it', status: 'in_progress' }] }])
  })

  it('that is told item by item is one list', () => {
    const create = (id: string, subject: string, number: number) => [call(id, 'TaskCreate', { subject, description: subject }), completion(id, 'TaskCreate', {}, `Task #${number} created successfully: ${subject}`)]
    const update = (id: string, taskId: string, status: string) => [call(id, 'TaskUpdate', { taskId, status }), completion(id, 'TaskUpdate', {}, `Updated task #${taskId} status`)]
    const shown = rows(...create('a', 'Count', 7), ...create('b', 'Tell', 8), ...create('c', 'Forget', 9), ...update('d', '7', 'completed'), ...update('e', '9', 'deleted'))
    expect(shown).toMatchObject([{ kind: 'plan', items: [{ text: 'Count', status: 'completed' }, { text: 'Tell', status: 'pending' }] }])
    expect(shown).toHaveLength(1)
  })

  it('that could not be changed says so', () => {
    const shown = rows(call('a', 'TaskCreate', { subject: 'Count' }), completion('a', 'TaskCreate', {}, 'no', { is_error: true }))
    expect(shown).toMatchObject([{ kind: 'plan', items: [] }, { kind: 'tool', tool: 'TaskCreate', status: 'failed' }])
  })

  it('of a sub-agent is its own', () => {
    const mine = { ...todo('b', ['Theirs', 'pending']), data: { ...todo('b', ['Theirs', 'pending']).data, parent_tool_use_id: 's' } }
    expect(rows(todo('a', ['Mine', 'pending']), invoked('s', 'look'), mine)).toMatchObject([{ items: [{ text: 'Mine' }] }, { steps: [{ kind: 'plan', items: [{ text: 'Theirs' }] }] }])
  })
})

describe('around the agent', () => {
  it('the way to a sandbox is one line that says how far it is', () => {
    const steps = ['pending', 'preparing', 'creating', 'uploading', 'starting', 'spawned', 'running'].map((step) => told(`sandbox.${step}`))
    expect(rows(...steps)).toMatchObject([{ kind: 'line', key: 'sandbox', text: 'The sandbox is running', seq: 1, lastSeq: 7 }])
  })

  it('a step that is tried again says why, and no longer once it is past', () => {
    const retrying = told('sandbox.retrying', { stage: 'creating', error: 'no room', try: 1 })
    expect(rows(told('sandbox.creating'), retrying)).toMatchObject([{ tone: 'warn', detail: 'no room' }])
    expect(rows(told('sandbox.creating'), retrying, told('sandbox.uploading'))).toMatchObject([{ tone: 'quiet', detail: null }])
  })

  it('the way out is one line', () => {
    const shown = rows(done(), told('sandbox.completing'), told('agent.shutdown', { reason: 'complete' }), told('sandbox.completed'), told('sandbox.released'))
    expect(shown.map((row) => row.kind === 'line' && row.text)).toEqual(['The task is done', 'The sandbox is done and gone', 'The worker has left'])
  })

  it('the reason of an end is not overwritten by what follows', () => {
    expect(rows(told('sandbox.terminated', { reason: 'too slow' }), told('sandbox.released'))).toMatchObject([{ tone: 'warn', detail: 'too slow', lastSeq: 2 }])
    expect(rows(told('sandbox.failed', { error: 'no quota' }), told('sandbox.released'))).toMatchObject([{ kind: 'error', text: 'no quota' }])
  })

  it('the code is fetched in one line', () => {
    expect(rows(told('workspace.cloning', { repository: 'a/b', branch: null }), told('workspace.ready', { repository: 'a/b', branch: 'main' }))).toMatchObject([{ text: 'The code is here', detail: 'a/b (main)' }])
  })

  it.each([
    ['agent.failed', { error: 'boom' }, { recovers: false }],
    ['agent.error', { error: 'boom', phase: 'initialization' }, { recovers: true }],
    ['agent.stream_error', { error: 'boom', restarts: true }, { recovers: true }],
    ['agent.stream_error', { error: 'boom', restarts: false }, { recovers: false }],
    ['workspace.failed', { error: 'boom' }, { recovers: false }],
  ])('%s is an error', (type, data, expected) => {
    expect(rows(told(type, data))).toMatchObject([{ kind: 'error', text: 'boom', ...expected }])
  })

  it('a task that ended without success has failed, whatever the event is called', () => {
    expect(rows(done({ success: false, error: 'boom' }))).toMatchObject([{ kind: 'error', text: 'boom' }])
  })

  it('a turn tells what it cost', () => {
    expect(rows(turn())).toMatchObject([{ kind: 'turn', success: true, interrupted: false, costUsd: 0.25, inputTokens: 100, outputTokens: 20, durationMs: 900 }])
  })

  it('a preview outlives its agent and ends with its sandbox', () => {
    const ready = told('preview.ready', { port: 3000, url: 'http://localhost:3000' })
    const status = (...ends: Told[]) => rows(ready, ...ends).find((row) => row.kind === 'preview')?.status
    expect(status(done())).toBe('ready')
    expect(status(done(), told('sandbox.completed'))).toBe('stopped')
    expect(status(told('sandbox.terminated'))).toBe('stopped')
  })
  it('a preview is one row from its start to its end, and another when it comes back', () => {
    const shown = rows(told('preview.starting', { port: 3000 }), told('preview.ready', { port: 3000, url: 'http://localhost:3000', framework: 'vite' }), told('preview.stopped', { port: 3000 }), told('preview.starting', { port: 3000 }), told('preview.failed', { port: 4000, error: 'no answer' }))
    expect(shown).toMatchObject([
      { kind: 'preview', status: 'stopped', framework: 'vite', url: 'http://localhost:3000' },
      { status: 'starting', port: 3000 },
      { status: 'failed', port: 4000, detail: 'no answer' },
    ])
  })

  it('iterations have their rows', () => {
    const shown = rows(told('continuous.started', { goal: 'Mend it' }), told('iteration.started', { iteration_num: 1 }), told('iteration.validation', { passed: false, feedback: 'not pushed' }), told('iteration.failed', { iteration_num: 1, error: 'boom' }), told('continuous.completed', { stop_reason: 'validation_passed', successful_iterations: 2, total_cost_usd: 1.5 }))
    expect(shown.map((row) => row.kind === 'iteration' && [row.tone, row.detail])).toEqual([
      ['info', 'Mend it'],
      ['info', null],
      ['warn', 'not pushed'],
      ['bad', 'boom'],
      ['good', 'validation passed, 2 iterations, $1.50'],
    ])
  })

  it('a model that is asked again says how often', () => {
    expect(rows(system('api_retry', { attempt: 1, max_retries: 2, error: 'overloaded' }))).toMatchObject([{ kind: 'line', tone: 'warn', text: 'The model did not answer and is asked again (1 of 2)', detail: 'overloaded' }])
  })
})

describe('what nobody knows', () => {
  it('is shown as it is', () => {
    expect(rows(told('agent.unparsed', { raw: { sky: 'cloudy' } }), told('spec.progress', { percent: 3 }))).toMatchObject([
      { kind: 'other', eventType: 'agent.unparsed', unparsed: true, data: { raw: { sky: 'cloudy' } } },
      { kind: 'other', eventType: 'spec.progress', unparsed: false, data: { percent: 3 } },
    ])
  })

  it('and signs of life are not shown at all', () => {
    expect(rows(told('agent.heartbeat'), told('spec.heartbeat'), told('agent.partial', { text: 'x' }), whole(), told('SANDBOX_HEARTBEAT'))).toEqual([])
  })

  it('a message of the model that has a text is shown, one without is not', () => {
    expect(rows(told('agent.assistant_message', { content: 'hi' }), whole())).toMatchObject([{ kind: 'text', text: 'hi' }])
  })
})

describe('a timeline', () => {
  const events = log(started(), heard('p', 'Mend it.'), text('a'), thinking('b'), call('a', 'Bash', { command: 'ls' }), completion('a', 'Bash', { command: 'ls' }))

  it('stays as it is when it is extended, so it can be extended twice', () => {
    const half = fold(events.slice(0, 5))
    const before = structuredClone(half.rows)
    const whole = extend(half, events.slice(5))
    expect(half.rows).toEqual(before)
    expect(extend(half, events.slice(5)).rows).toEqual(whole.rows)
    expect(half.rows[4]).toMatchObject({ status: 'running' })
    expect(whole.rows[4]).toMatchObject({ status: 'done' })
  })

  it('keeps the rows that nothing happened to', () => {
    const half = fold(events.slice(0, 5))
    const whole = extend(half, events.slice(5))
    expect(whole.rows[0]).toBe(half.rows[0])
    expect(whole.rows[4]).not.toBe(half.rows[4])
  })

  it('is the same object if there is nothing new', () => {
    const whole = fold(events)
    expect(extend(whole, events)).toBe(whole)
    expect(extend(empty, [])).toBe(empty)
  })

  it('tells in which row each event is', () => {
    expect([...rowsOfEvents(events).values()]).toEqual(['seq:1', 'task', 'seq:3', 'seq:4', 'tool:a', 'tool:a'])
  })

  it.each(EVENT_TYPES)('has no event that breaks it: %s without any data', (type) => {
    expect(() => rows(told(type))).not.toThrow()
  })
})
