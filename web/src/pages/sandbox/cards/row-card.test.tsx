// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { cleanup, fireEvent, render, screen, within } from '@testing-library/react'
import { MemoryRouter } from 'react-router'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { FileChange, Row, SubagentRow, ToolRow } from '../../../timeline/rows'
import { RowCard } from './row-card'

afterEach(() => {
  cleanup()
  vi.unstubAllGlobals()
})

const base = { key: 'seq:7', seq: 7, lastSeq: 7, at: '2026-01-02T03:04:05.000000Z', turn: 1, parent: null }

function show(row: Row) {
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  return render(
    <QueryClientProvider client={queries}>
      <MemoryRouter>
        <RowCard row={row} sandboxId="s-1" />
      </MemoryRouter>
    </QueryClientProvider>,
  )
}

/** The plane, which has this body for whatever event is asked for. */
function planeWith(body: object, status = 200) {
  const asked = vi.fn((path: string) => Promise.resolve(new Response(JSON.stringify(body), { status, headers: { path } })))
  vi.stubGlobal('fetch', asked)
  return asked
}

const tool = (row: Partial<ToolRow>): ToolRow => ({
  ...base,
  kind: 'tool',
  tool: 'Bash',
  title: null,
  toolUseId: 't-1',
  status: 'done',
  input: {},
  output: null,
  durationMs: 1_500,
  files: [],
  permission: null,
  repeats: 1,
  rest: null,
  ...row,
})

const change = (row: Partial<FileChange>): FileChange => ({
  seq: 8,
  at: base.at,
  path: 'src/notes.md',
  previousPath: null,
  change: 'modified',
  added: 1,
  removed: 1,
  diff: '--- a/src/notes.md\n+++ b/src/notes.md\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n',
  whole: true,
  fullAvailable: true,
  binary: false,
  toolUseId: 't-1',
  ...row,
})

describe('what is said', () => {
  it('shows what the agent writes as Markdown', async () => {
    show({ ...base, kind: 'text', text: 'It is **done**.', rest: null })
    expect((await screen.findByText('done')).tagName).toBe('STRONG')
  })
  it('shows the beginning of a long thought, and all of it to who asks', async () => {
    show({ ...base, kind: 'thinking', text: 'one\ntwo\nthree\nfour\nfive', rest: null })
    expect(screen.getByText('Thinking')).toBeTruthy()
    expect(screen.queryByText(/five/)).toBeNull()
    fireEvent.click(screen.getByRole('button', { name: 'Show all of it' }))
    expect(await screen.findByText(/five/)).toBeTruthy()
  })
  it('fetches the rest of a long text', async () => {
    const asked = planeWith({ content: 'The whole story.' })
    show({ ...base, kind: 'text', text: 'The whole', rest: 7 })
    fireEvent.click(screen.getByRole('button', { name: 'Load the full text' }))
    expect(await screen.findByText('The whole story.')).toBeTruthy()
    expect(asked.mock.calls[0]?.[0]).toBe('/api/v1/sandboxes/s-1/events/7/body')
  })
  it('says why the rest could not be fetched, and lets one try again', async () => {
    planeWith({ code: 'forbidden', detail: 'no' }, 403)
    show({ ...base, kind: 'text', text: 'The whole', rest: 7 })
    fireEvent.click(screen.getByRole('button', { name: 'Load the full text' }))
    expect((await screen.findByRole('alert')).textContent).toBe('Your role does not allow this.')
    planeWith({ content: 'The whole story.' })
    fireEvent.click(screen.getByRole('button', { name: 'Load the full text' }))
    expect(await screen.findByText('The whole story.')).toBeTruthy()
  })
  it.each([
    ['task', null, 'The task'],
    ['user_message', { kind: 'user', id: 'ada' }, 'ada'],
    ['user_message', { kind: 'user', id: null }, 'You'],
    ['interrupt', { kind: 'operator', id: null }, 'The operator, interrupting'],
    ['stop', { kind: 'user', id: null }, 'You, stopping everything'],
    ['guidance', null, 'Guidance'],
  ] as const)('says who speaks in a %s', (messageType, sender, words) => {
    show({ ...base, kind: 'said', text: 'Go on', messageId: 'm-1', messageType, sender, synthetic: false, rest: null, receipts: [] })
    expect(screen.getByText(words)).toBeTruthy()
    expect(screen.getByText('Go on')).toBeTruthy()
  })
  it('shows how far a message has come', () => {
    const receipts = [{ state: 'queued' as const, at: base.at, detail: null }, { state: 'fetched' as const, at: base.at, detail: null }]
    show({ ...base, kind: 'said', text: 'Go on', messageId: 'm-1', messageType: 'user_message', sender: null, synthetic: false, rest: null, receipts })
    expect(screen.getByText(/fetched/i)).toBeTruthy()
  })
})

describe('a command', () => {
  it('runs', () => {
    show(tool({ status: 'running', input: { command: 'cargo test', description: 'Run the tests' }, durationMs: null }))
    expect(screen.getByText('cargo test')).toBeTruthy()
    expect(screen.getByText('Run the tests')).toBeTruthy()
    expect(screen.getByText('Running')).toBeTruthy()
  })
  it('shows what it printed and how long it took', () => {
    show(tool({ input: { command: 'ls' }, output: 'a.txt\n\u001b[32mb.txt\u001b[0m' }))
    expect(screen.getByText('b.txt').className).toBe('text-good')
    expect(screen.getByText('1.5 s')).toBeTruthy()
  })
  it('says that it failed, and with which code', () => {
    show(tool({ status: 'failed', input: { command: 'false' }, output: 'Exit code 3\nno such thing' }))
    expect(screen.getByText('Exit code 3')).toBeTruthy()
    expect(screen.getByText('Failed')).toBeTruthy()
    expect(screen.getByText('no such thing')).toBeTruthy()
  })
  it('says that nobody knows what came of it', () => {
    show(tool({ status: 'interrupted', input: { command: 'sleep 100' }, durationMs: null }))
    expect(screen.getByText('Interrupted')).toBeTruthy()
  })
  it('says that it was not allowed, and why', () => {
    show(tool({ status: 'refused', input: { command: 'rm -rf /' }, output: 'not on a Friday', permission: { allowed: false, reason: 'too dangerous' } }))
    expect(screen.getByText('It was not allowed: too dangerous')).toBeTruthy()
  })
  it('shows the beginning of a long output', () => {
    const output = Array.from({ length: 400 }, (_, index) => `line ${index + 1}`).join('\n')
    show(tool({ input: { command: 'seq' }, output }))
    expect(screen.queryByText(/line 400/)).toBeNull()
    fireEvent.click(screen.getByRole('button', { name: 'Show all 400 lines' }))
    expect(screen.getByText(/line 400/)).toBeTruthy()
  })
  it('shows the files that it changed, closed', async () => {
    show(tool({ input: { command: 'make' }, files: [change({})] }))
    expect(screen.queryByRole('table')).toBeNull()
    fireEvent.click(screen.getByRole('button', { name: /Modified/ }))
    expect(within(await screen.findByRole('table')).getByText('zwei')).toBeTruthy()
  })
})

describe('an edit', () => {
  it('is the file that it changed', async () => {
    show(tool({ tool: 'Edit', input: { file_path: 'src/notes.md', old_string: 'two', new_string: 'zwei' }, files: [change({})] }))
    expect(screen.getByText('src/notes.md')).toBeTruthy()
    expect(screen.getByText('1 line added, 1 line removed')).toBeTruthy()
    expect(within(await screen.findByRole('table')).getByText('zwei')).toBeTruthy()
  })
  it('shows what it means to write while it runs', async () => {
    show(tool({ tool: 'Edit', status: 'running', input: { file_path: 'a', old_string: 'x = 1', new_string: 'y = 1' } }))
    expect((await screen.findByRole('table')).textContent).toBe('x = 1y = 1')
    cleanup()
    show(tool({ tool: 'Write', status: 'running', input: { file_path: 'a', content: 'new contents' } }))
    expect(screen.getByText('new contents')).toBeTruthy()
  })
  it('shows every part of many', async () => {
    const edits = [{ old_string: 'a', new_string: 'b' }, { old_string: 'c', new_string: 'd' }]
    show(tool({ tool: 'MultiEdit', status: 'running', input: { file_path: 'a', edits } }))
    expect(await screen.findAllByRole('table')).toHaveLength(2)
  })
  it('says why it failed', () => {
    show(tool({ tool: 'Edit', status: 'failed', input: { file_path: 'a', old_string: 'x', new_string: 'y' }, output: 'String to replace not found' }))
    expect(screen.getByText('String to replace not found')).toBeTruthy()
  })
  it('fetches a diff that was too long', async () => {
    planeWith({ full_diff: '@@ -1 +1 @@\n-old\n+all of the new\n' })
    show({ ...base, kind: 'file', change: change({ whole: false }) })
    fireEvent.click(screen.getByRole('button', { name: 'Load the full diff' }))
    expect(await screen.findByText('all of the new')).toBeTruthy()
  })
})

describe('other tools', () => {
  it.each([
    ['Read', { file_path: 'a.ts', offset: 10, limit: 5 }, 'a.ts, lines 10 to 14'],
    ['Glob', { pattern: '**/*.rs' }, '**/*.rs'],
    ['Grep', { pattern: 'TODO', path: 'src' }, 'TODO in src'],
    ['WebFetch', { url: 'https://example.org/' }, 'https://example.org/'],
    ['WebSearch', { query: 'sand' }, 'sand'],
    ['mcp__github__list_issues', { state: 'open' }, 'from github'],
    ['Something', { description: 'new' }, 'new'],
  ])('%s says what it is about, and shows the rest to who asks', (name, input, about) => {
    show(tool({ tool: name, input, output: 'what came of it' }))
    expect(screen.getByText(about)).toBeTruthy()
    expect(screen.queryByText('what came of it')).toBeNull()
    fireEvent.click(screen.getByRole('button', { expanded: false }))
    expect(screen.getByText('what came of it')).toBeTruthy()
  })
  it('never folds what went wrong', () => {
    show(tool({ tool: 'Read', status: 'failed', input: { file_path: 'a' }, output: 'It does not exist.' }))
    expect(screen.getByText('It does not exist.')).toBeTruthy()
    expect(screen.queryByRole('button', { expanded: true })).toBeNull()
  })
  it('shows a question with its answers', () => {
    const questions = [{ question: 'Which one?', options: [{ label: 'Left', description: 'the near one' }, { label: 'Right' }] }]
    show(tool({ tool: 'AskUserQuestion', input: { questions }, output: 'Left' }))
    expect(screen.getByText('Which one?')).toBeTruthy()
    expect(screen.getAllByRole('listitem').map((item) => item.textContent)).toEqual(['Left: the near one', 'Right'])
  })
  it('says how many equal calls it stands for', () => {
    show(tool({ tool: 'Write', input: { file_path: 'a' }, repeats: 3 }))
    expect(screen.getByText('3 times')).toBeTruthy()
  })
})

describe('a sub-agent', () => {
  const subagent = (row: Partial<SubagentRow>): SubagentRow => ({
    ...base,
    kind: 'subagent',
    toolUseId: 't-9',
    agent: 'general-purpose',
    description: 'Count files',
    prompt: 'Count the files here.',
    status: 'done',
    background: false,
    result: 'There are two.',
    rest: null,
    tokens: 1_200,
    costUsd: 0.5,
    durationMs: 9_000,
    steps: [{ ...tool({ input: { command: 'ls | wc -l' } }), key: 'tool:t-2' }],
    ...row,
  })
  it('shows what it is for, what came of it, what it cost, and its steps to who asks', () => {
    show(subagent({}))
    for (const words of ['general-purpose', 'Count files', 'Count the files here.', 'There are two.', '1,200 tokens, $0.50', '9.0 s']) {
      expect(screen.getByText(words)).toBeTruthy()
    }
    expect(screen.queryByText('ls | wc -l')).toBeNull()
    fireEvent.click(screen.getByRole('button', { name: 'Show its 1 step' }))
    expect(screen.getByText('ls | wc -l')).toBeTruthy()
  })
  it('runs', () => {
    show(subagent({ status: 'running', result: null, steps: [] }))
    expect(screen.getByText('It has not begun yet.')).toBeTruthy()
    expect(screen.getByText('Running')).toBeTruthy()
  })
  it('shows the last of many steps first', () => {
    const steps = Array.from({ length: 60 }, (_, index) => ({ ...tool({ input: { command: `step ${index + 1}.` } }), key: `tool:${index}` }))
    show(subagent({ steps }))
    fireEvent.click(screen.getByRole('button', { name: 'Show its 60 steps' }))
    expect(screen.getByText('step 60.')).toBeTruthy()
    expect(screen.queryByText('step 1.')).toBeNull()
    fireEvent.click(screen.getByRole('button', { name: 'Show 20 earlier steps' }))
    expect(screen.getByText('step 1.')).toBeTruthy()
  })
})

describe('lines and all the rest', () => {
  it('shows a skill, failed and open', () => {
    show({ ...base, kind: 'skill', toolUseId: null, skill: 'pdf', status: 'failed', input: {}, output: 'no such file', rest: null })
    expect(screen.getByText('pdf')).toBeTruthy()
    expect(screen.getByText('no such file')).toBeTruthy()
  })
  it('shows a plan with how far each item is, in words', () => {
    show({ ...base, kind: 'plan', items: [{ text: 'Look', status: 'completed' }, { text: 'Do', status: 'in_progress' }, { text: 'Check', status: 'pending' }] })
    expect(screen.getAllByRole('listitem').map((item) => item.textContent)).toEqual(['Done: Look', 'In progress: Do', 'To do: Check'])
    expect(screen.getByText('1 of 3 done')).toBeTruthy()
  })
  it('shows a line', () => {
    show({ ...base, kind: 'line', tone: 'good', text: 'The agent is done', detail: 'task_complete', eventType: 'agent.completed' })
    expect(screen.getByText('The agent is done').parentElement?.className).toContain('text-good')
    expect(screen.getByText('task_complete')).toBeTruthy()
  })
  it('shows an error, open, and whether it goes on', () => {
    show({ ...base, kind: 'error', title: 'The agent died', text: 'out of memory', recovers: true, eventType: 'agent.stream_error' })
    expect(screen.getByText('out of memory')).toBeTruthy()
    expect(screen.getByText('It goes on')).toBeTruthy()
    expect(screen.queryByRole('button', { expanded: true })).toBeNull()
  })
  it('shows an iteration', () => {
    show({ ...base, kind: 'iteration', tone: 'info', text: 'Iteration 2', detail: 'of 5' })
    expect(screen.getByText('Iteration 2')).toBeTruthy()
  })
  it('shows what a turn cost', () => {
    show({ ...base, kind: 'turn', success: true, interrupted: false, costUsd: 0.00618, inputTokens: 310, outputTokens: 80, durationMs: 12_000, detail: null })
    expect(screen.getByText('Turn done · $0.0062 · 310 tokens in, 80 out · 12 s')).toBeTruthy()
    cleanup()
    show({ ...base, kind: 'turn', success: false, interrupted: false, costUsd: null, inputTokens: null, outputTokens: null, durationMs: null, detail: 'budget' })
    expect(screen.getByText('Turn failed')).toBeTruthy()
    expect(screen.getByText('budget')).toBeTruthy()
  })
  it('leads to a preview that is ready', () => {
    show({ ...base, kind: 'preview', status: 'ready', port: 5173, url: 'http://127.0.0.1:5173/', framework: 'vite', detail: null })
    expect(screen.getByRole('link', { name: 'Look at it' }).getAttribute('href')).toBe('/?tab=preview')
    expect(screen.getByText('vite, port 5173')).toBeTruthy()
  })
  it('shows what nobody understands as it was told', () => {
    show({ ...base, kind: 'other', eventType: 'agent.unparsed', data: { line: '{"odd"' }, unparsed: true, rest: null })
    fireEvent.click(screen.getByRole('button', { name: /Not understood/ }))
    expect(screen.getByText(/odd/)).toBeTruthy()
  })
})
