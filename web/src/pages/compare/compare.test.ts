import { describe, expect, it } from 'vitest'
import type { FileChange, Row, SubagentRow, ToolRow } from '../../timeline/rows'
import { type FileState, type Run, emptyRun } from '../../timeline/run'
import { type Fact, compareFiles, facts, toolFacts } from './compare'

const run = (more: Partial<Run>): Run => ({ ...emptyRun, ...more })
const fact = (list: readonly Fact[], name: string) => list.find((each) => each.name === name)
const NOW = Date.parse('2026-01-01T01:00:00Z')

describe('facts of two runs', () => {
  const left = run({
    outcome: 'completed',
    startedAt: '2026-01-01T00:00:00Z',
    endedAt: '2026-01-01T00:01:00Z',
    costUsd: 0.5,
    turns: 3,
  })
  const right = run({
    outcome: 'failed',
    startedAt: '2026-01-01T00:00:00Z',
    endedAt: '2026-01-01T00:00:48Z',
    costUsd: 0.75,
    turns: 3,
  })

  it('describe how the right run differs from the left', () => {
    const list = facts(left, right, NOW)
    expect(fact(list, 'Outcome')).toMatchObject({
      left: 'Completed',
      right: 'Failed',
      difference: 'different',
      same: false,
    })
    expect(fact(list, 'Duration')).toMatchObject({
      left: '1 min 0 s',
      right: '48 s',
      difference: '12 s shorter on the right',
    })
    expect(fact(list, 'Cost')).toMatchObject({ difference: '$0.25 more on the right' })
    expect(fact(list, 'Turns')).toMatchObject({ difference: 'same', same: true })
  })

  it('are the same for a run and itself', () => {
    expect(facts(left, left, NOW).every((each) => each.same)).toBe(true)
  })

  it('include the elapsed time of a running run', () => {
    const running = run({ startedAt: '2026-01-01T00:59:00Z' })
    const list = facts(running, run({}), NOW)
    expect(fact(list, 'Outcome')).toMatchObject({ left: 'Running', right: 'Not started' })
    expect(fact(list, 'Duration')).toMatchObject({ left: '1 min 0 s', right: 'Not started', difference: 'different' })
  })
})

const base = { key: 'k', seq: 1, lastSeq: 1, at: '2026-01-01T00:00:00Z', turn: 1, parent: null }
const tool = (name: string, repeats = 1): ToolRow => ({
  ...base,
  kind: 'tool',
  tool: name,
  title: null,
  toolUseId: null,
  status: 'done',
  input: {},
  output: null,
  durationMs: null,
  files: [],
  permission: null,
  repeats,
  rest: null,
})
const subagent = (...inside: Row[]): SubagentRow => ({
  ...base,
  kind: 'subagent',
  toolUseId: null,
  agent: 'general',
  description: '',
  prompt: '',
  status: 'done',
  background: false,
  result: null,
  rest: null,
  tokens: null,
  costUsd: null,
  durationMs: null,
  steps: inside,
})

describe('tool uses by tool', () => {
  it('count collapsed calls and those of sub-agents', () => {
    const list = toolFacts(
      [tool('Bash'), tool('Write', 3), subagent(tool('Bash'), subagent(tool('Bash')))],
      [tool('Write')],
    )
    expect(list.map((each) => `${each.name} ${each.left} ${each.right}`)).toEqual([
      'Write 3 1',
      'Bash 3 0',
      'Sub-agent 2 0',
    ])
    expect(fact(list, 'Bash')?.difference).toBe('3 less on the right')
  })
})

const created = (path: string, line: string, more: Partial<FileChange> = {}): FileChange => ({
  seq: 1,
  at: '2026-01-01T00:00:00Z',
  path,
  previousPath: null,
  change: 'created',
  added: 1,
  removed: 0,
  diff: `--- /dev/null\n+++ b/${path}\n@@ -0,0 +1 @@\n+${line}\n`,
  complete: true,
  fullAvailable: true,
  binary: false,
  toolUseId: null,
  ...more,
})
const file = (path: string, changes: FileChange[], status: FileState['status'] = 'created'): FileState => ({
  path,
  status,
  added: 1,
  removed: 0,
  changes,
})
const edit = (path: string, from: string, to: string) =>
  created(path, '', { change: 'modified', diff: `--- a/${path}\n+++ b/${path}\n@@ -1 +1 @@\n-${from}\n+${to}\n` })

describe('files of two runs', () => {
  const verdicts = (left: FileState[], right: FileState[]) =>
    compareFiles(left, right).map((each) => `${each.path} ${each.verdict}`)

  it('are classified as only left or only right', () => {
    expect(verdicts([file('a', [created('a', 'x')])], [file('b', [created('b', 'x')])])).toEqual([
      'a only left',
      'b only right',
    ])
  })

  it('are the same if their final content is the same', () => {
    const direct = file('a', [created('a', 'two')])
    const detour = file('a', [created('a', 'one'), edit('a', 'one', 'two')])
    expect(verdicts([direct], [detour])).toEqual(['a same'])
    expect(verdicts([direct], [file('a', [created('a', 'one')])])).toEqual(['a different'])
  })

  it('of unknown content are the same only after equal edits', () => {
    const edited = (to: string) => [file('a', [edit('a', 'old', to)], 'modified')]
    expect(verdicts(edited('new'), edited('new'))).toEqual(['a same'])
    expect(verdicts(edited('new'), edited('newer'))).toEqual(['a unknown'])
  })

  it('are unknown if diffs are truncated or binary', () => {
    const cut = [file('a', [created('a', 'x', { complete: false })])]
    expect(verdicts(cut, cut)).toEqual(['a unknown'])
    const binary = [file('a', [created('a', 'x', { binary: true, diff: '' })])]
    expect(verdicts(binary, binary)).toEqual(['a unknown'])
  })

  it('are different if only one run deleted them', () => {
    const deleted = [file('a', [created('a', '', { change: 'deleted', diff: '' })], 'deleted')]
    expect(verdicts(deleted, [file('a', [created('a', 'x')])])).toEqual(['a different'])
    expect(verdicts(deleted, deleted)).toEqual(['a same'])
  })
})
