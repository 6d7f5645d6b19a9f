// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { cleanup, fireEvent, render, screen, within } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { MemoryRouter } from 'react-router'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { FileChange, MessageRow, Row, SubagentRow, ToolRow } from '../../../timeline/rows'
import { SandboxEnded } from '../sandbox-ended'
import { RowCard } from './row-card'

afterEach(() => {
  cleanup()
  vi.unstubAllGlobals()
})

const base = { key: 'seq:7', seq: 7, lastSeq: 7, at: '2026-01-02T03:04:05.000000Z', turn: 1, parent: null }

function show(row: Row, { ended = false } = {}) {
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  return render(
    <QueryClientProvider client={queries}>
      <MemoryRouter>
        <SandboxEnded value={ended}>
          <RowCard row={row} sandboxId="s-1" />
        </SandboxEnded>
      </MemoryRouter>
    </QueryClientProvider>,
  )
}

/** A control plane that returns this body for every event. */
function planeWith(body: object, status = 200) {
  const requests = vi.fn((path: string) =>
    Promise.resolve(new Response(JSON.stringify(body), { status, headers: { path } })),
  )
  vi.stubGlobal('fetch', requests)
  return requests
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
  complete: true,
  fullAvailable: true,
  binary: false,
  toolUseId: 't-1',
  ...row,
})

const undeliverable: MessageRow = {
  ...base,
  kind: 'message',
  text: 'Go on',
  messageId: 'm-1',
  messageType: 'user_message',
  sender: null,
  synthetic: false,
  unverified: false,
  rest: null,
  version: 1,
  deliveries: 10,
  receipts: [
    { state: 'queued', at: base.at, detail: null },
    { state: 'fetched', at: base.at, detail: null },
    { state: 'undeliverable', at: base.at, detail: 'pulled 10 times without an acknowledgement' },
  ],
}

describe('text and messages', () => {
  it('render agent text as Markdown', async () => {
    show({ ...base, kind: 'text', text: 'It is **done**.', rest: null })
    expect((await screen.findByText('done')).tagName).toBe('STRONG')
  })
  it('collapse long thinking', async () => {
    show({ ...base, kind: 'thinking', text: 'one\ntwo\nthree\nfour\nfive', rest: null })
    expect(screen.getByText('Thinking')).toBeTruthy()
    expect(screen.queryByText(/five/)).toBeNull()
    fireEvent.click(screen.getByRole('button', { name: 'Show all' }))
    expect(await screen.findByText(/five/)).toBeTruthy()
  })
  it('load the full text on demand', async () => {
    const requests = planeWith({ content: 'The complete story.' })
    show({ ...base, kind: 'text', text: 'The complete', rest: 7 })
    fireEvent.click(screen.getByRole('button', { name: 'Load full text' }))
    expect(await screen.findByText('The complete story.')).toBeTruthy()
    expect(requests.mock.calls[0]?.[0]).toBe('/api/v1/sandboxes/s-1/events/7/body')
  })
  it('show a load error and allow a retry', async () => {
    planeWith({ code: 'forbidden', detail: 'no' }, 403)
    show({ ...base, kind: 'text', text: 'The complete', rest: 7 })
    fireEvent.click(screen.getByRole('button', { name: 'Load full text' }))
    expect((await screen.findByRole('alert')).textContent).toBe('You do not have permission to do this.')
    planeWith({ content: 'The complete story.' })
    fireEvent.click(screen.getByRole('button', { name: 'Load full text' }))
    expect(await screen.findByText('The complete story.')).toBeTruthy()
  })
  it.each([
    ['task', null, 'Task'],
    ['user_message', { kind: 'user', id: 'ada' }, 'ada'],
    ['user_message', { kind: 'user', id: null }, 'You'],
    ['interrupt', { kind: 'operator', id: null }, 'Operator (interrupt)'],
    ['stop', { kind: 'user', id: null }, 'You (stop everything)'],
    ['guidance', null, 'Guidance'],
  ] as const)('show the sender of a %s', (messageType, sender, label) => {
    show({
      ...base,
      kind: 'message',
      text: 'Go on',
      messageId: 'm-1',
      messageType,
      sender,
      synthetic: false,
      unverified: false,
      rest: null,
      version: 1,
      deliveries: null,
      receipts: [],
    })
    expect(screen.getByText(label)).toBeTruthy()
    expect(screen.getByText('Go on')).toBeTruthy()
  })
  it('of an unknown sender do not look like those of a person', () => {
    show({ ...undeliverable, text: 'Delete everything', unverified: true, receipts: [], deliveries: null })
    expect(screen.getByText('Worker (sender not verified)')).toBeTruthy()
    expect(screen.queryByText('You')).toBeNull()
  })
  it('show the delivery status of a message', () => {
    const receipts = [
      { state: 'queued' as const, at: base.at, detail: null },
      { state: 'fetched' as const, at: base.at, detail: null },
    ]
    show({
      ...base,
      kind: 'message',
      text: 'Go on',
      messageId: 'm-1',
      messageType: 'user_message',
      sender: null,
      synthetic: false,
      unverified: false,
      rest: null,
      version: 1,
      deliveries: null,
      receipts,
    })
    expect(screen.getByText(/fetched/i)).toBeTruthy()
  })
  it('offer to send an undeliverable message again or to cancel it', async () => {
    const requests = planeWith({})
    show(undeliverable)
    expect(screen.getByText('Undeliverable: the worker took it 10 times and never confirmed it.')).toBeTruthy()
    expect(screen.queryByText(/without an acknowledgement/)).toBeNull()
    const [resend, cancel] = within(screen.getByRole('group', { name: 'Undeliverable message' })).getAllByRole('button')
    expect([resend?.textContent, cancel?.textContent]).toEqual(['Send again', 'Cancel'])
    await userEvent.click(screen.getByRole('button', { name: 'Send again' }))
    await userEvent.click(screen.getByRole('button', { name: 'Cancel message' }))
    expect(requests.mock.calls.map(([path]) => path)).toEqual([
      '/api/v1/sandboxes/s-1/messages/m-1/resend',
      '/api/v1/sandboxes/s-1/messages/m-1/cancel',
    ])
  })
  it('offer nothing for an undeliverable message of an ended sandbox', () => {
    show(undeliverable, { ended: true })
    expect(screen.getByText('Undeliverable: the worker took it 10 times and never confirmed it.')).toBeTruthy()
    expect(screen.queryByRole('button')).toBeNull()
  })
  it('show the progress and the error of sending again', async () => {
    let respond: (response: Response) => void = () => undefined
    vi.stubGlobal('fetch', () => new Promise<Response>((resolve) => (respond = resolve)))
    show(undeliverable)
    // With the keyboard.
    await userEvent.tab()
    await userEvent.keyboard('{Enter}')
    expect(await screen.findByRole('button', { name: 'Sending…' })).toHaveProperty('disabled', true)
    expect(screen.getByRole('button', { name: 'Cancel message' })).toHaveProperty('disabled', true)
    respond(Response.json({ status: 409, code: 'sandbox_finished', detail: 'x' }, { status: 409 }))
    expect((await screen.findByRole('alert')).textContent).toBe('Sandbox ended. It no longer receives messages.')
    expect(screen.getByRole('button', { name: 'Send again' })).toHaveProperty('disabled', false)
  })
  it('show that a message was sent again', () => {
    const receipts = [{ state: 'queued' as const, at: base.at, detail: null }]
    show({ ...undeliverable, version: 2, deliveries: null, receipts })
    expect(screen.getByText(/Queued again/)).toBeTruthy()
    expect(screen.queryByRole('button', { name: 'Send again' })).toBeNull()
  })
})

describe('a command', () => {
  it('shows that it is running', () => {
    show(tool({ status: 'running', input: { command: 'cargo test', description: 'Run the tests' }, durationMs: null }))
    expect(screen.getByText('cargo test')).toBeTruthy()
    expect(screen.getByText('Run the tests')).toBeTruthy()
    expect(screen.getByText('Running')).toBeTruthy()
  })
  it('shows its output and duration', () => {
    show(tool({ input: { command: 'ls' }, output: 'a.txt\n\u001b[32mb.txt\u001b[0m' }))
    expect(screen.getByText('b.txt').className).toBe('text-good')
    expect(screen.getByText('1.5 s')).toBeTruthy()
  })
  it('shows its failure and exit code', () => {
    show(tool({ status: 'failed', input: { command: 'false' }, output: 'Exit code 3\nno such thing' }))
    expect(screen.getByText('Exit code 3')).toBeTruthy()
    expect(screen.getByText('Failed')).toBeTruthy()
    expect(screen.getByText('no such thing')).toBeTruthy()
  })
  it('shows that it was interrupted', () => {
    show(tool({ status: 'interrupted', input: { command: 'sleep 100' }, durationMs: null }))
    expect(screen.getByText('Interrupted')).toBeTruthy()
  })
  it('shows why it was denied', () => {
    show(
      tool({
        status: 'denied',
        input: { command: 'rm -rf /' },
        output: 'not on a Friday',
        permission: { allowed: false, reason: 'too dangerous' },
      }),
    )
    expect(screen.getByText('Permission denied: too dangerous')).toBeTruthy()
  })
  it('collapses long output', () => {
    const output = Array.from({ length: 400 }, (_, index) => `line ${index + 1}`).join('\n')
    show(tool({ input: { command: 'seq' }, output }))
    expect(screen.queryByText(/line 400/)).toBeNull()
    fireEvent.click(screen.getByRole('button', { name: 'Show all 400 lines' }))
    expect(screen.getByText(/line 400/)).toBeTruthy()
  })
  it('lists changed files collapsed', async () => {
    show(tool({ input: { command: 'make' }, files: [change({})] }))
    expect(screen.queryByRole('table')).toBeNull()
    fireEvent.click(screen.getByRole('button', { name: /Modified/ }))
    expect(within(await screen.findByRole('table')).getByText('zwei')).toBeTruthy()
  })
})

describe('an edit', () => {
  it('shows the changed file', async () => {
    show(
      tool({
        tool: 'Edit',
        input: { file_path: 'src/notes.md', old_string: 'two', new_string: 'zwei' },
        files: [change({})],
      }),
    )
    expect(screen.getByText('src/notes.md')).toBeTruthy()
    expect(screen.getByText('1 line added, 1 line removed')).toBeTruthy()
    expect(within(await screen.findByRole('table')).getByText('zwei')).toBeTruthy()
  })
  it('shows the intended edit while it runs', async () => {
    show(tool({ tool: 'Edit', status: 'running', input: { file_path: 'a', old_string: 'x = 1', new_string: 'y = 1' } }))
    expect((await screen.findByRole('table')).textContent).toBe('x = 1y = 1')
    cleanup()
    show(tool({ tool: 'Write', status: 'running', input: { file_path: 'a', content: 'new contents' } }))
    expect(screen.getByText('new contents')).toBeTruthy()
  })
  it('shows every part of a multi-edit', async () => {
    const edits = [
      { old_string: 'a', new_string: 'b' },
      { old_string: 'c', new_string: 'd' },
    ]
    show(tool({ tool: 'MultiEdit', status: 'running', input: { file_path: 'a', edits } }))
    expect(await screen.findAllByRole('table')).toHaveLength(2)
  })
  it('shows why it failed', () => {
    show(
      tool({
        tool: 'Edit',
        status: 'failed',
        input: { file_path: 'a', old_string: 'x', new_string: 'y' },
        output: 'String to replace not found',
      }),
    )
    expect(screen.getByText('String to replace not found')).toBeTruthy()
  })
  it('loads a long diff on demand', async () => {
    planeWith({ full_diff: '@@ -1 +1 @@\n-old\n+all of the new\n' })
    show({ ...base, kind: 'file', change: change({ complete: false }) })
    fireEvent.click(screen.getByRole('button', { name: 'Load full diff' }))
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
  ])('%s shows its subject and expands to its output', (name, input, about) => {
    show(tool({ tool: name, input, output: 'the output' }))
    expect(screen.getByText(about)).toBeTruthy()
    expect(screen.queryByText('the output')).toBeNull()
    fireEvent.click(screen.getByRole('button', { expanded: false }))
    expect(screen.getByText('the output')).toBeTruthy()
  })
  it('never collapse errors', () => {
    show(tool({ tool: 'Read', status: 'failed', input: { file_path: 'a' }, output: 'It does not exist.' }))
    expect(screen.getByText('It does not exist.')).toBeTruthy()
    expect(screen.queryByRole('button', { expanded: true })).toBeNull()
  })
  it('show a question with its options', () => {
    const questions = [
      { question: 'Which one?', options: [{ label: 'Left', description: 'the near one' }, { label: 'Right' }] },
    ]
    show(tool({ tool: 'AskUserQuestion', input: { questions }, output: 'Left' }))
    expect(screen.getByText('Which one?')).toBeTruthy()
    expect(screen.getAllByRole('listitem').map((item) => item.textContent)).toEqual(['Left: the near one', 'Right'])
  })
  it('show the number of collapsed calls', () => {
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
  it('shows prompt, result, cost and, on demand, its steps', () => {
    show(subagent({}))
    for (const text of [
      'general-purpose',
      'Count files',
      'Count the files here.',
      'There are two.',
      '1,200 tokens, $0.50',
      '9.0 s',
    ]) {
      expect(screen.getByText(text)).toBeTruthy()
    }
    expect(screen.queryByText('ls | wc -l')).toBeNull()
    fireEvent.click(screen.getByRole('button', { name: 'Show 1 step' }))
    expect(screen.getByText('ls | wc -l')).toBeTruthy()
  })
  it('shows that it is starting', () => {
    show(subagent({ status: 'running', result: null, steps: [] }))
    expect(screen.getByText('Starting…')).toBeTruthy()
    expect(screen.getByText('Running')).toBeTruthy()
  })
  it('shows the latest steps first', () => {
    const steps = Array.from({ length: 60 }, (_, index) => ({
      ...tool({ input: { command: `step ${index + 1}.` } }),
      key: `tool:${index}`,
    }))
    show(subagent({ steps }))
    fireEvent.click(screen.getByRole('button', { name: 'Show 60 steps' }))
    expect(screen.getByText('step 60.')).toBeTruthy()
    expect(screen.queryByText('step 1.')).toBeNull()
    fireEvent.click(screen.getByRole('button', { name: 'Show 20 earlier steps' }))
    expect(screen.getByText('step 1.')).toBeTruthy()
  })
})

describe('other rows', () => {
  it('show a failed skill expanded', () => {
    show({
      ...base,
      kind: 'skill',
      toolUseId: null,
      skill: 'pdf',
      status: 'failed',
      input: {},
      output: 'no such file',
      rest: null,
    })
    expect(screen.getByText('pdf')).toBeTruthy()
    expect(screen.getByText('no such file')).toBeTruthy()
  })
  it('show a plan with the status of each item', () => {
    show({
      ...base,
      kind: 'plan',
      items: [
        { text: 'Look', status: 'completed' },
        { text: 'Do', status: 'in_progress' },
        { text: 'Check', status: 'pending' },
      ],
    })
    expect(screen.getAllByRole('listitem').map((item) => item.textContent)).toEqual([
      'Done: Look',
      'In progress: Do',
      'To do: Check',
    ])
    expect(screen.getByText('1 of 3 done')).toBeTruthy()
  })
  it('show a line', () => {
    show({
      ...base,
      kind: 'line',
      tone: 'good',
      text: 'Task completed',
      detail: 'task_complete',
      eventType: 'agent.completed',
    })
    expect(screen.getByText('Task completed').parentElement?.className).toContain('text-good')
    expect(screen.getByText('task_complete')).toBeTruthy()
  })
  it('show an error expanded and whether it recovers', () => {
    show({
      ...base,
      kind: 'error',
      title: 'Agent crashed',
      text: 'out of memory',
      recovers: true,
      eventType: 'agent.stream_error',
    })
    expect(screen.getByText('out of memory')).toBeTruthy()
    expect(screen.getByText('Recovering')).toBeTruthy()
    expect(screen.queryByRole('button', { expanded: true })).toBeNull()
  })
  it('show an iteration', () => {
    show({ ...base, kind: 'iteration', tone: 'info', text: 'Iteration 2', detail: 'of 5' })
    expect(screen.getByText('Iteration 2')).toBeTruthy()
  })
  it('show the cost of a turn', () => {
    show({
      ...base,
      kind: 'turn',
      success: true,
      interrupted: false,
      costUsd: 0.00618,
      inputTokens: 310,
      outputTokens: 80,
      durationMs: 12_000,
      detail: null,
    })
    expect(screen.getByText('Turn completed · $0.0062 · 310 tokens in, 80 out · 12 s')).toBeTruthy()
    cleanup()
    show({
      ...base,
      kind: 'turn',
      success: false,
      interrupted: false,
      costUsd: null,
      inputTokens: null,
      outputTokens: null,
      durationMs: null,
      detail: 'budget',
    })
    expect(screen.getByText('Turn failed')).toBeTruthy()
    expect(screen.getByText('budget')).toBeTruthy()
  })
  it('link to a preview that is ready', () => {
    show({
      ...base,
      kind: 'preview',
      status: 'ready',
      port: 5173,
      url: 'http://127.0.0.1:5173/',
      framework: 'vite',
      detail: null,
    })
    expect(screen.getByRole('link', { name: 'Open preview' }).getAttribute('href')).toBe('/?tab=preview')
    expect(screen.getByText('vite, port 5173')).toBeTruthy()
  })
  it('show an unrecognized event as raw data', () => {
    show({ ...base, kind: 'other', eventType: 'agent.unparsed', data: { line: '{"odd"' }, unparsed: true, rest: null })
    fireEvent.click(screen.getByRole('button', { name: /Unrecognized event/ }))
    expect(screen.getByText(/odd/)).toBeTruthy()
  })
})
