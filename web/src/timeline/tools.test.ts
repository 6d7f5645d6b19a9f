import { describe, expect, it } from 'vitest'
import { completion, decided, done, edit, heard, invoked, log, numbered, returned, started, system, text, thinking, told, turn, call, whole } from './fixtures'
import type { LogEvent } from './event'
import { fold } from './fold'
import type { Row, SubagentRow, ToolRow } from './rows'

const rows = (events: LogEvent[]) => fold(events).rows
const toolRows = (events: LogEvent[]) => rows(events).filter((row): row is ToolRow => row.kind === 'tool')
const theTool = (events: LogEvent[]) => only(toolRows(events))
const theSubagent = (events: LogEvent[]) => only(rows(events).filter((row): row is SubagentRow => row.kind === 'subagent'))

function only<Kind extends Row>(found: Kind[]): Kind {
  expect(found).toHaveLength(1)
  const [row] = found
  if (row === undefined) throw new Error('there is none')
  return row
}

const ls = { command: 'ls' }

describe('a tool', () => {
  it('is one row from its call to its end, at the place of the call', () => {
    const events = log(call('a', 'Bash', ls), whole(), text('meanwhile'), completion('a', 'Bash', ls, 'README.md'))
    expect(rows(events).map((row) => row.kind)).toEqual(['tool', 'text'])
    expect(theTool(events)).toMatchObject({ key: 'tool:a', status: 'done', output: 'README.md', durationMs: 12, seq: 1, lastSeq: 4 })
  })

  it('runs until somebody says how it ended', () => {
    expect(theTool(log(call('a', 'Bash', ls)))).toMatchObject({ status: 'running', output: null })
  })

  it('is shown while it runs, although the same command has completed before', () => {
    const events = log(call('a', 'Bash', ls), completion('a', 'Bash', ls), call('b', 'Bash', ls))
    expect(toolRows(events).map((row) => row.status)).toEqual(['done', 'running'])
  })

  it('is matched by its id, not by what it was called with', () => {
    const events = log(call('a', 'Bash', ls), call('b', 'Bash', ls), completion('b', 'Bash', ls, 'second'))
    expect(toolRows(events).map(({ status, output }) => [status, output])).toEqual([
      ['running', null],
      ['done', 'second'],
    ])
  })

  it('that failed says so', () => {
    expect(theTool(log(call('a', 'Bash', ls), completion('a', 'Bash', ls, 'Exit code 2', { is_error: true })))).toMatchObject({ status: 'failed' })
  })

  it('stands alone where its call is not known', () => {
    expect(theTool(numbered([completion('a', 'Bash', ls, 'x')], 70))).toMatchObject({ key: 'tool:a', input: ls, status: 'done', output: 'x' })
  })

  it('is known by the same key however much of the log is loaded', () => {
    const all = log(call('a', 'Bash', ls), completion('a', 'Bash', ls))
    expect(theTool(all).key).toBe(theTool(all.slice(1)).key)
  })

  it('shows all of a long output if it is here, else where it is', () => {
    const long = completion('a', 'Bash', ls, 'begin', { tool_response_truncated: true, full_response: 'begin and end' })
    expect(theTool(log(call('a', 'Bash', ls), long))).toMatchObject({ output: 'begin and end', rest: null })
    const cut = { ...completion('a', 'Bash', ls, 'begin', { tool_response_truncated: true }), omitted: ['full_response'] }
    expect(theTool(log(call('a', 'Bash', ls), cut))).toMatchObject({ output: 'begin', rest: 2 })
  })

  it('of a provider ends with its result', () => {
    const events = log(call('a', 'web_search', { query: 'rust' }), told('agent.tool_result', { tool_use_id: 'a', result: 'A language.', is_error: false }))
    expect(theTool(events)).toMatchObject({ status: 'done', output: 'A language.' })
  })

  it('has the name that its agent gives to this use of it', () => {
    const event = told('agent.tool_use', { tool: 'Search', tool_use_id: 'c1', input: { pattern: 'x' }, title: 'grep x', kind: 'search' })
    expect(theTool(log(event)).title).toBe('grep x')
  })
})

describe('when its agent ends', () => {
  const endings = [done(), told('agent.failed', { error: 'x' }), told('agent.stream_error', { error: 'killed', restarts: true }), told('sandbox.failed'), told('sandbox.terminated'), told('sandbox.terminated_idle'), told('agent.shutdown'), started(), turn({ interrupted: true })]
  it.each(endings)('a tool, a sub-agent and a skill run no longer: $type', (ending) => {
    const events = log(call('a', 'Bash', ls), invoked('b', 'look'), told('agent.skill_invoked', { skill_name: 'pdf', tool: 'Skill', tool_use_id: 'c', input: { skill: 'pdf' } }), ending)
    const running = rows(events).filter((row) => 'status' in row)
    expect(running.map((row) => row.status)).toEqual(['interrupted', 'interrupted', 'interrupted'])
  })

  it('what is told of a tool afterwards counts all the same', () => {
    const events = log(call('a', 'Bash', ls), told('agent.stream_error', { error: 'killed', restarts: true }), started(), completion('a', 'Bash', ls, 'late'))
    expect(theTool(events)).toMatchObject({ status: 'done', output: 'late' })
  })

  it('what works in the background survives the turn, not the agent', () => {
    const begun = [invoked('a', 'look'), system('task_started', { tool_use_id: 'a', is_backgrounded: true }), returned('a', 'look', 'sent off'), call('b', 'Bash', ls, 'a'), turn()]
    expect(theSubagent(log(...begun))).toMatchObject({ status: 'running', background: true, steps: [{ status: 'running' }] })
    expect(theSubagent(log(...begun, done()))).toMatchObject({ status: 'interrupted', steps: [{ status: 'interrupted' }] })
  })
})

describe('a changed file', () => {
  it('is part of the tool that changed it', () => {
    const input = { file_path: 'a.md', content: 'x' }
    const events = log(call('a', 'Write', input), completion('a', 'Write', input), edit('a.md', 'a', { change_type: 'created' }))
    expect(theTool(events).files).toMatchObject([{ path: 'a.md', change: 'created', added: 1, whole: true, fullAvailable: true, seq: 3 }])
    expect(rows(events)).toHaveLength(1)
  })

  it('of many that a command changed is there, too', () => {
    const events = log(call('a', 'Bash', ls), completion('a', 'Bash', ls), edit('a', 'a'), edit('b', 'a'), edit('c', 'a'))
    expect(theTool(events).files.map((file) => file.path)).toEqual(['a', 'b', 'c'])
  })

  it('has a row of its own where no tool is known', () => {
    expect(rows(log(edit('a', null), edit('b', 'gone'))).map((row) => row.kind)).toEqual(['file', 'file'])
  })

  it('of a sub-agent is one of its steps', () => {
    expect(theSubagent(log(invoked('a', 'look'), edit('x', 'a'))).steps).toMatchObject([{ kind: 'file', change: { path: 'x' } }])
  })

  it('says where the whole diff is if it is not here', () => {
    const event = { ...edit('a', null, { diff_preview: '@@', full_diff: null }), omitted: ['full_diff'] }
    const gone = edit('b', null, { diff_preview: '@@', full_diff: null, full_diff_available: false })
    expect(rows(log(event, gone))).toMatchObject([{ change: { diff: '@@', whole: false, fullAvailable: true } }, { change: { whole: false, fullAvailable: false } }])
  })
})

describe('writes', () => {
  const write = (id: string, content = 'x', tool = 'Write') => {
    const input = { file_path: 'a.md', content }
    return [call(id, tool, input), whole(), completion(id, tool, input)]
  }

  it('that are equal and in a row are one row', () => {
    const events = log(...write('a'), edit('a.md', 'a'), ...write('b'), ...write('c'), edit('a.md', 'c'))
    expect(theTool(events)).toMatchObject({ key: 'tool:a', repeats: 3, files: [{ seq: 4 }, { seq: 11 }] })
  })

  it('of other content are not, also to the same file', () => {
    expect(toolRows(log(...write('a'), ...write('b', 'y'), ...write('c')))).toHaveLength(3)
  })

  it('with something in between are not', () => {
    expect(toolRows(log(...write('a'), text('again'), ...write('b')))).toHaveLength(2)
  })

  it('that came to something else are not', () => {
    const input = { file_path: 'a.md', content: 'x' }
    const events = log(...write('a'), call('b', 'Write', input), completion('b', 'Write', input, 'disk full', { is_error: true }))
    expect(toolRows(events).map((row) => row.status)).toEqual(['done', 'failed'])
  })

  it('are the only tools that collapse: a command that runs twice ran twice', () => {
    const events = log(call('a', 'Bash', ls), completion('a', 'Bash', ls), call('b', 'Bash', ls), completion('b', 'Bash', ls))
    expect(toolRows(events)).toHaveLength(2)
  })

  it('never hide an edit: all edits of a file are shown', () => {
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

  it('that was not given leaves a tool refused, not failed', () => {
    const events = log(call('a', 'Bash', ls), decided('a', 'deny', 'outside'), completion('a', 'Bash', ls, 'outside', { is_error: true }))
    expect(theTool(events)).toMatchObject({ status: 'refused', permission: { allowed: false, reason: 'outside' } })
  })

  it('that the agent itself did not give is the same', () => {
    const denied = system('permission_denied', { tool_name: 'Bash', tool_use_id: 'a', message: 'not yours' })
    const events = log(call('a', 'Bash', ls), denied, completion('a', 'Bash', ls, 'not yours', { is_error: true }))
    expect(theTool(events)).toMatchObject({ status: 'refused', permission: { allowed: false, reason: 'not yours' } })
    expect(rows(events)).toHaveLength(1)
  })

  it('for a tool that is not known is a line', () => {
    expect(rows(log(decided('a', 'deny', 'outside')))).toMatchObject([{ kind: 'line', tone: 'warn', detail: 'outside' }])
  })
})

describe('a sub-agent', () => {
  it('has everything that it did in its steps, nested ones too', () => {
    const events = log(
      invoked('a', 'look'),
      system('task_started', { tool_use_id: 'a', is_backgrounded: false }),
      heard('u', 'look', { parent_tool_use_id: 'a' }),
      thinking('hm', 'a'),
      invoked('b', 'deeper', 'a'),
      call('c', 'Grep', { pattern: 'x' }, 'b'),
      completion('c', 'Grep', { pattern: 'x' }, 'found', { parent_tool_use_id: 'b' }),
      returned('b', 'deeper', 'there', 'a'),
      text('It is there.', 'a'),
      returned('a', 'look'),
    )
    const row = theSubagent(events)
    expect(row).toMatchObject({ agent: 'explorer', description: 'Look around', prompt: 'look', status: 'done', result: 'Found it.', tokens: 120, durationMs: 700, lastSeq: 10 })
    expect(row.steps.map((step) => step.kind)).toEqual(['thinking', 'subagent', 'text'])
    expect(row.steps[1]).toMatchObject({ status: 'done', result: 'there', steps: [{ kind: 'tool', status: 'done', output: 'found' }] })
    expect(rows(events)).toHaveLength(1)
  })

  it('does not show its prompt twice, whoever echoes it', () => {
    expect(theSubagent(log(invoked('a', 'look'), heard('u', 'look', { parent_tool_use_id: 'a' }))).steps).toEqual([])
    expect(rows(log(heard('t', 'the task'), invoked('a', 'look'), heard(null, 'look')))).toHaveLength(2)
  })

  it('shows what else is said to it', () => {
    expect(theSubagent(log(invoked('a', 'look'), heard('u', 'go on', { parent_tool_use_id: 'a' }))).steps).toMatchObject([{ kind: 'said', synthetic: true, text: 'go on' }])
  })

  it('whose call is not loaded has its steps all the same, and is filled when more is known', () => {
    const events = numbered([call('c', 'Grep', { pattern: 'x' }, 'a'), text('found', 'a'), returned('a', 'look')], 50)
    expect(theSubagent(events)).toMatchObject({ key: 'tool:a', agent: 'explorer', prompt: 'look', status: 'done', steps: [{ kind: 'tool' }, { kind: 'text' }] })
  })

  it('in the background is done when a notification says so', () => {
    const events = log(invoked('a', 'look'), system('task_started', { tool_use_id: 'a', is_backgrounded: true }), returned('a', 'look', 'sent off'), system('task_updated', { task_id: 't' }), system('task_notification', { tool_use_id: 'a', status: 'completed', summary: 'All done.', usage: { total_tokens: 9, duration_ms: 3 } }))
    expect(theSubagent(events)).toMatchObject({ status: 'done', result: 'All done.', tokens: 9, durationMs: 3 })
    expect(rows(events)).toHaveLength(1)
  })
})

it('a command in the background tells when it is done', () => {
  const events = log(call('a', 'Bash', ls), system('task_started', { tool_use_id: 'a', is_backgrounded: true }), completion('a', 'Bash', ls, 'running'), system('task_notification', { tool_use_id: 'a', status: 'completed', summary: 'Build completed' }))
  expect(rows(events)).toMatchObject([{ kind: 'tool' }, { kind: 'line', text: 'Build completed' }])
})

it('a skill is one row', () => {
  const input = { skill: 'pdf' }
  const events = log(told('agent.skill_invoked', { skill_name: 'pdf', tool: 'Skill', tool_use_id: 'a', input }), told('agent.skill_completed', { skill_name: 'pdf', tool: 'Skill', tool_use_id: 'a', tool_input: input, tool_response: 'read', is_error: false }))
  expect(rows(events)).toMatchObject([{ kind: 'skill', skill: 'pdf', status: 'done', output: 'read' }])
})

describe('a worker of OmoiOS', () => {
  const useOf = (id: string, tool: string, input: object) => told('agent.tool_use', { turn: 3, tool, tool_use_id: id, input: { ...input }, event_subtype: 'tool_use' })
  const completed = (tool: string, input: object, response = 'ok') => told('agent.tool_completed', { turn: 0, tool, tool_input: { ...input }, tool_response: response })
  const result = (id: string) => told('agent.user_tool_result', { turn: 3, tool_use_id: id, result: 'ok', result_truncated: false })

  it('completes the oldest open use of the same tool with the same input', () => {
    const events = log(useOf('a', 'Bash', ls), useOf('b', 'Bash', ls), completed('Bash', ls, 'first'), completed('Bash', ls, 'second'))
    expect(toolRows(events).map((row) => [row.key, row.output])).toEqual([
      ['tool:a', 'first'],
      ['tool:b', 'second'],
    ])
  })

  it('tells a completion and a result of one tool, in either order', () => {
    expect(theTool(log(useOf('a', 'Bash', ls), completed('Bash', ls), result('a'))).status).toBe('done')
    expect(theTool(log(useOf('a', 'Bash', ls), result('a'), completed('Bash', ls))).status).toBe('done')
  })

  it('completes what nobody called', () => {
    expect(theTool(log(useOf('a', 'Bash', ls), result('a'), completed('Bash', { command: 'pwd' })).slice(2))).toMatchObject({ tool: 'Bash', status: 'done' })
  })

  it('runs sub-agents without naming them at their end', () => {
    const about = { subagent_type: 'x', subagent_description: 'd', subagent_prompt: 'p', tool: 'Task' }
    const events = log(told('agent.subagent_invoked', { ...about, tool_use_id: 'a', input: { prompt: 'p' } }), told('agent.subagent_completed', { ...about, subagent_result: 'r', subagent_cost_usd: 0.5 }))
    expect(theSubagent(events)).toMatchObject({ status: 'done', result: 'r', costUsd: 0.5 })
  })

  it('may use other words', () => {
    const events = log(told('agent.tool_use', { tool_name: 'Bash', tool_id: 'a', tool_input: ls }), told('agent.tool_result', { tool_id: 'a', content: 'out', is_error: false }))
    expect(theTool(events)).toMatchObject({ tool: 'Bash', input: ls, status: 'done', output: 'out' })
  })
})
