import { describe, expect, it } from 'vitest'
import {
  completion,
  decided,
  done,
  edit,
  userMessage,
  invoked,
  log,
  numbered,
  returned,
  started,
  system,
  text,
  thinking,
  eventOf,
  turn,
  call,
  assistantMessage,
} from './fixtures'
import type { LogEvent } from './event'
import { fold } from './fold'
import type { Row, SubagentRow, ToolRow } from './rows'

const rows = (events: LogEvent[]) => fold(events).rows
const toolRows = (events: LogEvent[]) => rows(events).filter((row): row is ToolRow => row.kind === 'tool')
const theTool = (events: LogEvent[]) => only(toolRows(events))
const theSubagent = (events: LogEvent[]) =>
  only(rows(events).filter((row): row is SubagentRow => row.kind === 'subagent'))

function only<Kind extends Row>(found: Kind[]): Kind {
  expect(found).toHaveLength(1)
  const [row] = found
  if (row === undefined) throw new Error('there is none')
  return row
}

const ls = { command: 'ls' }

describe('a tool', () => {
  it('is one row from call to completion, at the position of the call', () => {
    const events = log(
      call('a', 'Bash', ls),
      assistantMessage(),
      text('meanwhile'),
      completion('a', 'Bash', ls, 'README.md'),
    )
    expect(rows(events).map((row) => row.kind)).toEqual(['tool', 'text'])
    expect(theTool(events)).toMatchObject({
      key: 'tool:a',
      status: 'done',
      output: 'README.md',
      durationMs: 12,
      seq: 1,
      lastSeq: 4,
    })
  })

  it('is running until it completes', () => {
    expect(theTool(log(call('a', 'Bash', ls)))).toMatchObject({ status: 'running', output: null })
  })

  it('is running although the same command completed before', () => {
    const events = log(call('a', 'Bash', ls), completion('a', 'Bash', ls), call('b', 'Bash', ls))
    expect(toolRows(events).map((row) => row.status)).toEqual(['done', 'running'])
  })

  it('is matched by its id, not by its input', () => {
    const events = log(call('a', 'Bash', ls), call('b', 'Bash', ls), completion('b', 'Bash', ls, 'second'))
    expect(toolRows(events).map(({ status, output }) => [status, output])).toEqual([
      ['running', null],
      ['done', 'second'],
    ])
  })

  it('with an error has failed', () => {
    expect(
      theTool(log(call('a', 'Bash', ls), completion('a', 'Bash', ls, 'Exit code 2', { is_error: true }))),
    ).toMatchObject({ status: 'failed' })
  })

  it('has a row even if its call is not loaded', () => {
    expect(theTool(numbered([completion('a', 'Bash', ls, 'x')], 70))).toMatchObject({
      key: 'tool:a',
      input: ls,
      status: 'done',
      output: 'x',
    })
  })

  it('has the same key however much of the log is loaded', () => {
    const all = log(call('a', 'Bash', ls), completion('a', 'Bash', ls))
    expect(theTool(all).key).toBe(theTool(all.slice(1)).key)
  })

  it('has its full output or a reference to it', () => {
    const long = completion('a', 'Bash', ls, 'begin', { tool_response_truncated: true, full_response: 'begin and end' })
    expect(theTool(log(call('a', 'Bash', ls), long))).toMatchObject({ output: 'begin and end', rest: null })
    const cut = {
      ...completion('a', 'Bash', ls, 'begin', { tool_response_truncated: true }),
      omitted: ['full_response'],
    }
    expect(theTool(log(call('a', 'Bash', ls), cut))).toMatchObject({ output: 'begin', rest: 2 })
  })

  it('of a provider completes with its result', () => {
    const events = log(
      call('a', 'web_search', { query: 'rust' }),
      eventOf('agent.tool_result', { tool_use_id: 'a', result: 'A language.', is_error: false }),
    )
    expect(theTool(events)).toMatchObject({ status: 'done', output: 'A language.' })
  })

  it('has the title that its agent gives to the call', () => {
    const event = eventOf('agent.tool_use', {
      tool: 'Search',
      tool_use_id: 'c1',
      input: { pattern: 'x' },
      title: 'grep x',
      kind: 'search',
    })
    expect(theTool(log(event)).title).toBe('grep x')
  })
})

describe('when the agent ends', () => {
  const endings = [
    done(),
    eventOf('agent.failed', { error: 'x' }),
    eventOf('agent.stream_error', { error: 'killed', restarts: true }),
    eventOf('sandbox.failed'),
    eventOf('sandbox.terminated'),
    eventOf('sandbox.terminated_idle'),
    eventOf('agent.shutdown'),
    started(),
    turn({ interrupted: true }),
  ]
  it.each(endings)('tools, sub-agents and skills are interrupted: $type', (ending) => {
    const events = log(
      call('a', 'Bash', ls),
      invoked('b', 'look'),
      eventOf('agent.skill_invoked', { skill_name: 'pdf', tool: 'Skill', tool_use_id: 'c', input: { skill: 'pdf' } }),
      ending,
    )
    const running = rows(events).filter((row) => 'status' in row)
    expect(running.map((row) => row.status)).toEqual(['interrupted', 'interrupted', 'interrupted'])
  })

  it('a late completion of a tool still counts', () => {
    const events = log(
      call('a', 'Bash', ls),
      eventOf('agent.stream_error', { error: 'killed', restarts: true }),
      started(),
      completion('a', 'Bash', ls, 'late'),
    )
    expect(theTool(events)).toMatchObject({ status: 'done', output: 'late' })
  })

  it('background work survives the turn but not the agent', () => {
    const startedInBackground = [
      invoked('a', 'look'),
      system('task_started', { tool_use_id: 'a', is_backgrounded: true }),
      returned('a', 'look', 'sent off'),
      call('b', 'Bash', ls, 'a'),
      turn(),
    ]
    expect(theSubagent(log(...startedInBackground))).toMatchObject({
      status: 'running',
      background: true,
      steps: [{ status: 'running' }],
    })
    expect(theSubagent(log(...startedInBackground, done()))).toMatchObject({
      status: 'interrupted',
      steps: [{ status: 'interrupted' }],
    })
  })
})

describe('a changed file', () => {
  it('is part of the tool that changed it', () => {
    const input = { file_path: 'a.md', content: 'x' }
    const events = log(
      call('a', 'Write', input),
      completion('a', 'Write', input),
      edit('a.md', 'a', { change_type: 'created' }),
    )
    expect(theTool(events).files).toMatchObject([
      { path: 'a.md', change: 'created', added: 1, complete: true, fullAvailable: true, seq: 3 },
    ])
    expect(rows(events)).toHaveLength(1)
  })

  it('is listed with the others of the same command', () => {
    const events = log(
      call('a', 'Bash', ls),
      completion('a', 'Bash', ls),
      edit('a', 'a'),
      edit('b', 'a'),
      edit('c', 'a'),
    )
    expect(theTool(events).files.map((file) => file.path)).toEqual(['a', 'b', 'c'])
  })

  it('has its own row if no tool is known', () => {
    expect(rows(log(edit('a', null), edit('b', 'unknown'))).map((row) => row.kind)).toEqual(['file', 'file'])
  })

  it('of a sub-agent is one of its steps', () => {
    expect(theSubagent(log(invoked('a', 'look'), edit('x', 'a'))).steps).toMatchObject([
      { kind: 'file', change: { path: 'x' } },
    ])
  })

  it('refers to the full diff if it is truncated', () => {
    const event = { ...edit('a', null, { diff_preview: '@@', full_diff: null }), omitted: ['full_diff'] }
    const unavailable = edit('b', null, { diff_preview: '@@', full_diff: null, full_diff_available: false })
    expect(rows(log(event, unavailable))).toMatchObject([
      { change: { diff: '@@', complete: false, fullAvailable: true } },
      { change: { complete: false, fullAvailable: false } },
    ])
  })
})

describe('writes', () => {
  const write = (id: string, content = 'x', tool = 'Write') => {
    const input = { file_path: 'a.md', content }
    return [call(id, tool, input), assistantMessage(), completion(id, tool, input)]
  }

  it('that are identical and consecutive are one row', () => {
    const events = log(...write('a'), edit('a.md', 'a'), ...write('b'), ...write('c'), edit('a.md', 'c'))
    expect(theTool(events)).toMatchObject({ key: 'tool:a', repeats: 3, files: [{ seq: 4 }, { seq: 11 }] })
  })

  it('of different content to the same file are separate rows', () => {
    expect(toolRows(log(...write('a'), ...write('b', 'y'), ...write('c')))).toHaveLength(3)
  })

  it('with another row in between are separate rows', () => {
    expect(toolRows(log(...write('a'), text('again'), ...write('b')))).toHaveLength(2)
  })

  it('with different outcomes are separate rows', () => {
    const input = { file_path: 'a.md', content: 'x' }
    const events = log(
      ...write('a'),
      call('b', 'Write', input),
      completion('b', 'Write', input, 'disk full', { is_error: true }),
    )
    expect(toolRows(events).map((row) => row.status)).toEqual(['done', 'failed'])
  })

  it('are the only tools that are collapsed', () => {
    const events = log(
      call('a', 'Bash', ls),
      completion('a', 'Bash', ls),
      call('b', 'Bash', ls),
      completion('b', 'Bash', ls),
    )
    expect(toolRows(events)).toHaveLength(2)
  })

  it('do not hide edits of the same file', () => {
    const edits = ['one', 'two', 'three'].flatMap((word) => {
      const input = { file_path: 'a.md', old_string: word, new_string: `${word}!`, replace_all: false }
      return [call(word, 'Edit', input), completion(word, 'Edit', input)]
    })
    expect(toolRows(log(...edits))).toHaveLength(3)
  })
})

describe('a permission', () => {
  it('is part of its tool', () => {
    const events = log(call('a', 'Bash', ls), decided('a', 'allow'), completion('a', 'Bash', ls))
    expect(theTool(events)).toMatchObject({ status: 'done', permission: { allowed: true, reason: null } })
  })

  it('that is denied leaves the tool denied, not failed', () => {
    const events = log(
      call('a', 'Bash', ls),
      decided('a', 'deny', 'outside'),
      completion('a', 'Bash', ls, 'outside', { is_error: true }),
    )
    expect(theTool(events)).toMatchObject({ status: 'denied', permission: { allowed: false, reason: 'outside' } })
  })

  it('that the agent itself denies has the same effect', () => {
    const denied = system('permission_denied', { tool_name: 'Bash', tool_use_id: 'a', message: 'not yours' })
    const events = log(call('a', 'Bash', ls), denied, completion('a', 'Bash', ls, 'not yours', { is_error: true }))
    expect(theTool(events)).toMatchObject({ status: 'denied', permission: { allowed: false, reason: 'not yours' } })
    expect(rows(events)).toHaveLength(1)
  })

  it('for an unknown tool is a line', () => {
    expect(rows(log(decided('a', 'deny', 'outside')))).toMatchObject([
      { kind: 'line', tone: 'warn', detail: 'outside' },
    ])
  })
})

describe('a sub-agent', () => {
  it('contains its steps, including nested sub-agents', () => {
    const events = log(
      invoked('a', 'look'),
      system('task_started', { tool_use_id: 'a', is_backgrounded: false }),
      userMessage('u', 'look', { parent_tool_use_id: 'a' }),
      thinking('hm', 'a'),
      invoked('b', 'deeper', 'a'),
      call('c', 'Grep', { pattern: 'x' }, 'b'),
      completion('c', 'Grep', { pattern: 'x' }, 'found', { parent_tool_use_id: 'b' }),
      returned('b', 'deeper', 'there', 'a'),
      text('It is there.', 'a'),
      returned('a', 'look'),
    )
    const row = theSubagent(events)
    expect(row).toMatchObject({
      agent: 'explorer',
      description: 'Look around',
      prompt: 'look',
      status: 'done',
      result: 'Found it.',
      tokens: 120,
      durationMs: 700,
      lastSeq: 10,
    })
    expect(row.steps.map((step) => step.kind)).toEqual(['thinking', 'subagent', 'text'])
    expect(row.steps[1]).toMatchObject({
      status: 'done',
      result: 'there',
      steps: [{ kind: 'tool', status: 'done', output: 'found' }],
    })
    expect(rows(events)).toHaveLength(1)
  })

  it('does not show an echo of its prompt', () => {
    expect(theSubagent(log(invoked('a', 'look'), userMessage('u', 'look', { parent_tool_use_id: 'a' }))).steps).toEqual(
      [],
    )
    expect(rows(log(userMessage('t', 'the task'), invoked('a', 'look'), userMessage(null, 'look')))).toHaveLength(2)
  })

  it('shows other messages to it', () => {
    expect(
      theSubagent(log(invoked('a', 'look'), userMessage('u', 'go on', { parent_tool_use_id: 'a' }))).steps,
    ).toMatchObject([{ kind: 'message', synthetic: true, text: 'go on' }])
  })

  it('whose call is not loaded is completed by later events', () => {
    const events = numbered([call('c', 'Grep', { pattern: 'x' }, 'a'), text('found', 'a'), returned('a', 'look')], 50)
    expect(theSubagent(events)).toMatchObject({
      key: 'tool:a',
      agent: 'explorer',
      prompt: 'look',
      status: 'done',
      steps: [{ kind: 'tool' }, { kind: 'text' }],
    })
  })

  it('in the background is done after its notification', () => {
    const events = log(
      invoked('a', 'look'),
      system('task_started', { tool_use_id: 'a', is_backgrounded: true }),
      returned('a', 'look', 'sent off'),
      system('task_updated', { task_id: 't' }),
      system('task_notification', {
        tool_use_id: 'a',
        status: 'completed',
        summary: 'All done.',
        usage: { total_tokens: 9, duration_ms: 3 },
      }),
    )
    expect(theSubagent(events)).toMatchObject({ status: 'done', result: 'All done.', tokens: 9, durationMs: 3 })
    expect(rows(events)).toHaveLength(1)
  })
})

it('a background command has a line for its completion', () => {
  const events = log(
    call('a', 'Bash', ls),
    system('task_started', { tool_use_id: 'a', is_backgrounded: true }),
    completion('a', 'Bash', ls, 'running'),
    system('task_notification', { tool_use_id: 'a', status: 'completed', summary: 'Build completed' }),
  )
  expect(rows(events)).toMatchObject([{ kind: 'tool' }, { kind: 'line', text: 'Build completed' }])
})

it('a skill is one row', () => {
  const input = { skill: 'pdf' }
  const events = log(
    eventOf('agent.skill_invoked', { skill_name: 'pdf', tool: 'Skill', tool_use_id: 'a', input }),
    eventOf('agent.skill_completed', {
      skill_name: 'pdf',
      tool: 'Skill',
      tool_use_id: 'a',
      tool_input: input,
      tool_response: 'read',
      is_error: false,
    }),
  )
  expect(rows(events)).toMatchObject([{ kind: 'skill', skill: 'pdf', status: 'done', output: 'read' }])
})

describe('an OmoiOS worker', () => {
  const useOf = (id: string, tool: string, input: object) =>
    eventOf('agent.tool_use', { turn: 3, tool, tool_use_id: id, input: { ...input }, event_subtype: 'tool_use' })
  const completed = (tool: string, input: object, response = 'ok') =>
    eventOf('agent.tool_completed', { turn: 0, tool, tool_input: { ...input }, tool_response: response })
  const result = (id: string) =>
    eventOf('agent.user_tool_result', { turn: 3, tool_use_id: id, result: 'ok', result_truncated: false })

  it('completes the oldest open call of the same tool with the same input', () => {
    const events = log(
      useOf('a', 'Bash', ls),
      useOf('b', 'Bash', ls),
      completed('Bash', ls, 'first'),
      completed('Bash', ls, 'second'),
    )
    expect(toolRows(events).map((row) => [row.key, row.output])).toEqual([
      ['tool:a', 'first'],
      ['tool:b', 'second'],
    ])
  })

  it('may send completion and result in either order', () => {
    expect(theTool(log(useOf('a', 'Bash', ls), completed('Bash', ls), result('a'))).status).toBe('done')
    expect(theTool(log(useOf('a', 'Bash', ls), result('a'), completed('Bash', ls))).status).toBe('done')
  })

  it('may complete a call that is not loaded', () => {
    expect(
      theTool(log(useOf('a', 'Bash', ls), result('a'), completed('Bash', { command: 'pwd' })).slice(2)),
    ).toMatchObject({ tool: 'Bash', status: 'done' })
  })

  it('may complete sub-agents without an id', () => {
    const about = { subagent_type: 'x', subagent_description: 'd', subagent_prompt: 'p', tool: 'Task' }
    const events = log(
      eventOf('agent.subagent_invoked', { ...about, tool_use_id: 'a', input: { prompt: 'p' } }),
      eventOf('agent.subagent_completed', { ...about, subagent_result: 'r', subagent_cost_usd: 0.5 }),
    )
    expect(theSubagent(events)).toMatchObject({ status: 'done', result: 'r', costUsd: 0.5 })
  })

  it('may use other field names', () => {
    const events = log(
      eventOf('agent.tool_use', { tool_name: 'Bash', tool_id: 'a', tool_input: ls }),
      eventOf('agent.tool_result', { tool_id: 'a', content: 'out', is_error: false }),
    )
    expect(theTool(events)).toMatchObject({ tool: 'Bash', input: ls, status: 'done', output: 'out' })
  })
})
