// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { act, cleanup, configure, render, screen, waitFor, within } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { MemoryRouter } from 'react-router'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { FileDiff, PullRequestOut, TaskDiff, TaskOut, TaskWorkspace } from '../../../api/contract'
import { keys } from '../../../api/queries'
import { json } from '../../testing/plane'
import { taskWith } from '../../testing/samples'
import { commentsOf } from '../branch/line-comments'
import { SandboxEnded } from '../sandbox-ended'
import ChangesTab from './changes'

configure({ asyncUtilTimeout: 10_000 })
vi.setConfig({ testTimeout: 30_000 })

const HEAD = 'abc1234def5678abc1234def5678abc1234def56'
const branch = { name: 'feature/count', base: 'main', base_commit: '0'.repeat(40) }
const file: FileDiff = {
  path: 'src/count.ts',
  previous_path: null,
  change_type: 'modified',
  additions: 1,
  deletions: 1,
  diff: '@@ -1 +1 @@\n-before\n+after\n',
  diff_truncated: false,
}
const compared: TaskDiff = {
  task_id: 't',
  branch: branch.name,
  base: 'main',
  commit: HEAD,
  ahead: 2,
  behind: 1,
  files: [file],
  files_truncated: false,
}
const noPull: PullRequestOut = {
  task_id: 't',
  repository: 'a/b',
  code_host: 'github',
  branch: branch.name,
  base: 'main',
  number: null,
  url: null,
  state: null,
  commit: HEAD,
  mergeable: null,
  ci_status: null,
  checks: [],
  feedback: { rounds: 0, in_progress: [], left_to_person: [], read_at: null, next_read_at: null },
}
const openPull: PullRequestOut = {
  ...noPull,
  number: 7,
  url: 'https://github.example/a/b/pull/7',
  state: 'open',
  mergeable: true,
}

const refused = (status: number, code: string, detail: string, more: object = {}) =>
  json(
    { type: `urn:sunaba:problem:${code}`, title: 'Conflict', status, code, detail, request_id: 'r', ...more },
    status,
  )

/** What the plane responds, by method and path. A test changes it. */
let responses: Record<string, () => Response | Promise<Response>>
let requests: { line: string; body: unknown }[]

beforeEach(() => {
  requests = []
  responses = {
    'GET /api/v1/sandboxes/s/task': () => json(taskWith({ id: 't', branch })),
    'GET /api/v1/tasks/t/diff': () => json(compared),
    'GET /api/v1/tasks/t/pull-request': () => json(openPull),
    'GET /api/v1/tasks/t/workspace/files': () => refused(409, 'no_workspace', 'No work of task t is kept.'),
  }
  vi.stubGlobal('fetch', (address: string, request?: RequestInit) => {
    const line = `${request?.method ?? 'GET'} ${address.split('?')[0] ?? ''}`
    requests.push({
      line,
      body: typeof request?.body === 'string' ? (JSON.parse(request.body) as unknown) : undefined,
    })
    return Promise.resolve(responses[line]?.() ?? refused(404, 'not_found', `No response for ${line}.`))
  })
})
afterEach(() => {
  cleanup()
  vi.unstubAllGlobals()
})

const diffIs = (changes: Partial<TaskDiff>) => {
  responses['GET /api/v1/tasks/t/diff'] = () => json({ ...compared, ...changes })
}
const pullIs = (changes: Partial<PullRequestOut>) => {
  responses['GET /api/v1/tasks/t/pull-request'] = () => json({ ...openPull, ...changes })
}
const taskIs = (changes: Partial<TaskOut>) => {
  responses['GET /api/v1/sandboxes/s/task'] = () => json(taskWith({ id: 't', branch, ...changes }))
}
const sent = (line: string) => requests.filter((request) => request.line === line).map(({ body }) => body)

function show(ended = false) {
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  const page = render(
    <QueryClientProvider client={queries}>
      <MemoryRouter>
        <SandboxEnded value={ended}>
          <ChangesTab sandboxId="s" />
        </SandboxEnded>
      </MemoryRouter>
    </QueryClientProvider>,
  )
  return { queries, ...page }
}

const panel = () => screen.findByRole('region', { name: 'Pull request' })

describe('the changes of a branch', () => {
  it('show both branches, their distance and the totals', async () => {
    show()
    await screen.findByText('2 commits ahead, 1 commit behind')
    const summary = screen.getByRole('region', { name: 'Branch' })
    expect(within(summary).getByRole('heading').textContent).toBe('feature/count to main')
    expect(summary.textContent).toContain('1 changed file')
    expect(summary.textContent).toContain('1 line added, 1 line removed')
  })

  it('show the diff of each file, which collapses', async () => {
    show()
    const title = await screen.findByRole('button', { name: /Modified.*src\/count\.ts/ })
    await screen.findByText('after')
    expect(title.getAttribute('aria-expanded')).toBe('true')
    title.focus()
    await userEvent.keyboard('{Enter}')
    expect(title.getAttribute('aria-expanded')).toBe('false')
    expect(screen.queryByText('after')).toBeNull()
  })

  it('explain files without a complete diff', async () => {
    diffIs({
      files: [
        { ...file, path: 'logo.png', change_type: 'created', additions: 0, deletions: 0, diff: null },
        {
          ...file,
          path: 'new.ts',
          previous_path: 'old.ts',
          change_type: 'renamed',
          additions: 0,
          deletions: 0,
          diff: null,
        },
        { ...file, path: 'big.ts', additions: 4_000, diff_truncated: true },
        { ...file, path: 'huge.ts', additions: 90_000, diff: null, diff_truncated: true },
      ],
      files_truncated: true,
    })
    show()
    const files = await screen.findByRole('region', { name: 'Changed files' })
    const [logo, renamed, big, huge] = within(files).getAllByRole('listitem')
    expect(logo?.textContent).toContain('Binary file. Contents are not shown.')
    expect(renamed?.textContent).toContain('old.ts → new.ts')
    expect(renamed?.textContent).toContain('No lines changed.')
    expect(big?.textContent).toContain('Truncated diff: 4,000 lines added and 1 line removed in total.')
    expect(huge?.textContent).toContain('The diff is too large: 90,000 lines added and 1 line removed in total.')
    expect(files.textContent).toContain('Only the first 4 files are shown.')
  })

  it('collapse if there are many files', async () => {
    diffIs({ files: Array.from({ length: 21 }, (_, index) => ({ ...file, path: `file-${index}.ts` })) })
    show()
    const title = await screen.findByRole('button', { name: /file-20\.ts/ })
    expect(title.getAttribute('aria-expanded')).toBe('false')
  })

  it('say that they are loading', async () => {
    responses['GET /api/v1/tasks/t/diff'] = () => new Promise(() => undefined)
    show()
    expect(await screen.findByText(/Loading changes/)).toBeTruthy()
  })

  it('say that there are none yet', async () => {
    diffIs({ ahead: 0, behind: 0, files: [] })
    show()
    expect(await screen.findByText('No changes yet.')).toBeTruthy()
    expect(screen.getByText('Same as its base')).toBeTruthy()
  })

  it('show why they cannot be loaded, and load them again on demand', async () => {
    const detail = 'The branch feature/count was deleted at the code host. Create it again.'
    responses['GET /api/v1/tasks/t/diff'] = () => refused(409, 'code_host_refused', detail, { reason: 'not_found' })
    show()
    expect((await screen.findByRole('alert')).textContent).toContain(detail)
    diffIs({})
    await userEvent.click(screen.getByRole('button', { name: 'Try again' }))
    expect(await screen.findByText('after')).toBeTruthy()
    expect(screen.queryByRole('alert')).toBeNull()
  })

  it('stay visible if they cannot be refreshed', async () => {
    const { queries } = show()
    await screen.findByText('after')
    responses['GET /api/v1/tasks/t/diff'] = () => refused(409, 'code_host_refused', 'The token has expired.')
    await act(() => queries.invalidateQueries({ queryKey: keys.task('t') }))
    expect((await screen.findByRole('alert')).textContent).toContain('may be out of date. The token has expired.')
    expect(screen.getByText('after')).toBeTruthy()
  })

  it('need a branch', async () => {
    taskIs({ branch: null })
    show()
    expect(await screen.findByText('No branch')).toBeTruthy()
  })
})

describe('work that is on no branch', () => {
  const patch =
    'diff --git a/notes.txt b/notes.txt\nnew file mode 100644\n--- /dev/null\n+++ b/notes.txt\n@@ -0,0 +1 @@\n+remember\n'
  const kept: TaskWorkspace = {
    task_id: 't',
    sandbox_id: 's',
    attempt: 2,
    kept_at: '2026-01-01T00:00:00.000000Z',
    expires_at: '2026-01-31T00:00:00.000000Z',
    files: [
      { format: 'archive', size_bytes: 7, sha256: 'a', pieces: 2 },
      { format: 'patch', size_bytes: patch.length, sha256: 'b', pieces: 1 },
    ],
    left_out: [{ path: 'data.bin', reason: 'too large' }],
    left_out_count: 3,
  }
  beforeEach(() => {
    taskIs({ branch: null })
    responses['GET /api/v1/tasks/t/workspace/files'] = () => json(kept)
    responses['GET /api/v1/tasks/t/workspace'] = () => new Response(patch)
  })

  it('shows its changes and what is not included', async () => {
    show()
    await screen.findByText('remember')
    const section = screen.getByRole('region', { name: 'Kept work' })
    expect(section.textContent).toContain('until 2026-01-31')
    expect(section.textContent).toContain('3 parts not included')
    expect(section.textContent).toContain('data.bin: too large')
    expect(section.textContent).toContain('and 2 more parts')
  })

  it('is downloaded in pieces that are joined', async () => {
    const saved: Blob[] = []
    const names: string[] = []
    vi.spyOn(URL, 'createObjectURL').mockImplementation((content) => {
      saved.push(content as Blob)
      return 'blob:x'
    })
    vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (this: HTMLAnchorElement) {
      names.push(this.download)
    })
    show()
    const button = await screen.findByRole('button', { name: 'Download files (7 B)' })
    const pieces = ['1234', '567']
    responses['GET /api/v1/tasks/t/workspace'] = () => new Response(pieces.shift())
    await userEvent.click(button)
    await waitFor(() => expect(names).toEqual(['t.tar.zst']))
    expect(await saved[0]?.text()).toBe('1234567')
    vi.restoreAllMocks()
  })

  it('says why it cannot be downloaded', async () => {
    show()
    const button = await screen.findByRole('button', { name: /Download files/ })
    await screen.findByText('remember')
    responses['GET /api/v1/tasks/t/workspace'] = () => refused(410, 'workspace_expired', 'It was kept until yesterday.')
    await userEvent.click(button)
    expect((await screen.findByRole('alert')).textContent).toBe('It was kept until yesterday.')
  })
})

describe('the pull request of a branch', () => {
  it('can be opened if there is none', async () => {
    responses['GET /api/v1/tasks/t/pull-request'] = () => json(noPull)
    responses['POST /api/v1/tasks/t/pull-request'] = () => {
      pullIs({})
      return json(openPull)
    }
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'Open pull request' }))
    const link = await screen.findByRole('link', { name: 'Pull request #7' })
    expect(link.getAttribute('href')).toBe('https://github.example/a/b/pull/7')
    expect(within(await panel()).getByText('Open')).toBeTruthy()
  })

  it('cannot be opened without commits', async () => {
    responses['GET /api/v1/tasks/t/pull-request'] = () => json(noPull)
    diffIs({ ahead: 0, files: [] })
    show()
    expect(await screen.findByText(/no commits that main does not have/)).toBeTruthy()
    expect(screen.getByRole('button', { name: 'Open pull request' }).hasAttribute('disabled')).toBe(true)
  })

  it('shows why it could not be opened', async () => {
    responses['GET /api/v1/tasks/t/pull-request'] = () => json(noPull)
    responses['POST /api/v1/tasks/t/pull-request'] = () => refused(403, 'forbidden', 'Role viewer may not do this.')
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'Open pull request' }))
    expect((await screen.findByRole('alert')).textContent).toBe('You do not have permission to do this.')
  })

  it('shows why its state is unknown', async () => {
    responses['GET /api/v1/tasks/t/pull-request'] = () => refused(409, 'code_host_refused', 'GitHub forbids it.')
    show()
    expect(within(await panel()).queryByRole('button', { name: /Merge/ })).toBeNull()
    expect((await within(await panel()).findByRole('alert')).textContent).toBe('GitHub forbids it.')
  })

  it('lists its checks on demand', async () => {
    pullIs({
      ci_status: 'failure',
      checks: [
        { name: 'build', state: 'success', summary: null, url: 'https://ci.example/1' },
        { name: 'lint', state: 'failure', summary: '2 errors', url: 'javascript:alert(1)' },
      ],
    })
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'Checks failed' }))
    const list = await screen.findByRole('dialog', { name: 'Checks' })
    expect(within(list).getByRole('link', { name: 'build' }).getAttribute('href')).toBe('https://ci.example/1')
    expect(within(list).queryByRole('link', { name: 'lint' })).toBeNull()
    expect(list.textContent).toContain('2 errors')
  })

  it('of a local repository is no link', async () => {
    pullIs({ url: 'refs/sunaba/pull/7/head' })
    show()
    expect(await screen.findByText('Pull request #7')).toBeTruthy()
    expect(screen.queryByRole('link')).toBeNull()
  })

  it('says that it was closed, and another one can be opened', async () => {
    pullIs({ state: 'closed' })
    show()
    expect(await screen.findByText(/closed without a merge/)).toBeTruthy()
    expect(screen.getByRole('button', { name: 'Open another pull request' })).toBeTruthy()
    expect(screen.queryByRole('button', { name: 'Merge…' })).toBeNull()
  })
})

describe('a merge', () => {
  const MERGE = 'POST /api/v1/tasks/t/merge'
  const askToMerge = async () => {
    await userEvent.click(await screen.findByRole('button', { name: 'Merge…' }))
    return screen.findByRole('alertdialog', { name: 'Merge into main?' })
  }

  it('is sent after a confirmation, with the commit that the page shows', async () => {
    const merged = { task_id: 't', number: 7, url: '', base: 'main', commit: `feed123${'0'.repeat(33)}` }
    responses[MERGE] = () => {
      pullIs({ state: 'merged', mergeable: null })
      return json({ ...merged, branch_deleted: true })
    }
    show()
    await screen.findByText('after')
    const dialog = await askToMerge()
    expect(dialog.textContent).toContain('abc1234')
    expect(sent(MERGE)).toEqual([])
    await userEvent.click(within(dialog).getByRole('button', { name: 'Squash and merge' }))
    await waitFor(async () => expect((await panel()).textContent).toContain('Merged into main as feed123'))
    expect(sent(MERGE)).toEqual([{ method: 'squash', commit: HEAD, delete_branch: true }])
  })

  it('shows the feedback that an agent works on, and offers to continue with what is left', async () => {
    const remark = {
      key: 'c',
      kind: 'thread' as const,
      path: 'src/a.rs',
      line: 7,
      author: 'ada',
      text: 'Why?',
      instructs: true,
    }
    const feedback = { ...openPull.feedback, rounds: 2, in_progress: [remark] }
    pullIs({ feedback })
    const { unmount } = show()
    const section = await screen.findByRole('region', { name: 'Feedback' })
    expect(section.textContent).toContain('Round 2 of feedback: the agent works on 1 point.')
    expect(section.textContent).toContain('src/a.rs:7 · adaWhy?')
    expect(within(section).queryByRole('button')).toBeNull()
    unmount()
    pullIs({ feedback: { ...feedback, in_progress: [], left_to_person: [remark] } })
    responses['POST /api/v1/tasks/t/feedback-rounds'] = () => json(taskWith({ id: 't', branch }))
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'Let the agent continue' }))
    await waitFor(() => expect(sent('POST /api/v1/tasks/t/feedback-rounds')).toHaveLength(1))
  })

  it('names the commit that was on the page, even if the pull request has a newer one', async () => {
    pullIs({ commit: 'f'.repeat(40) })
    responses[MERGE] = () => refused(409, 'code_host_refused', 'The newest commit is another one. Look again.')
    show()
    await screen.findByText('after')
    const dialog = await askToMerge()
    await userEvent.click(within(dialog).getByRole('button', { name: 'Squash and merge' }))
    expect((await screen.findByRole('alert')).textContent).toBe('The newest commit is another one. Look again.')
    expect(sent(MERGE)).toMatchObject([{ commit: HEAD }])
  })

  it('uses the chosen method and can keep the branch', async () => {
    responses[MERGE] = () => new Promise(() => undefined)
    show()
    await screen.findByText('after')
    await userEvent.selectOptions(screen.getByRole('combobox', { name: 'Merge method' }), 'rebase')
    const dialog = await askToMerge()
    await userEvent.click(within(dialog).getByRole('checkbox', { name: 'Delete the branch afterwards' }))
    await userEvent.click(within(dialog).getByRole('button', { name: 'Rebase and merge' }))
    expect(await screen.findByText(/Merging abc1234 into main/)).toBeTruthy()
    expect(sent(MERGE)).toMatchObject([{ method: 'rebase', delete_branch: false }])
  })

  it('keeps the keyboard focus in the panel', async () => {
    responses[MERGE] = () => new Promise(() => undefined)
    show()
    await screen.findByText('after')
    const dialog = await askToMerge()
    within(dialog).getByRole('button', { name: 'Squash and merge' }).focus()
    await userEvent.keyboard('{Enter}')
    await screen.findByText(/Merging abc1234/)
    const region = await panel()
    await waitFor(() => expect(document.activeElement).toBe(region))
  })

  it('is not sent if it is cancelled', async () => {
    show()
    await screen.findByText('after')
    await askToMerge()
    await userEvent.keyboard('{Escape}')
    await waitFor(() => expect(screen.queryByRole('alertdialog')).toBeNull())
    expect(sent(MERGE)).toEqual([])
  })

  it('needs another confirmation while checks fail', async () => {
    pullIs({ ci_status: 'failure', checks: [{ name: 'build', state: 'failure', summary: null, url: null }] })
    show()
    await screen.findByText('after')
    const dialog = await askToMerge()
    const confirm = within(dialog).getByRole<HTMLButtonElement>('button', { name: 'Squash and merge' })
    expect(confirm.disabled).toBe(true)
    await userEvent.click(within(dialog).getByRole('checkbox', { name: 'Merge although checks fail' }))
    expect(confirm.disabled).toBe(false)
  })

  it('is impossible with conflicts, and the page says so', async () => {
    pullIs({ mergeable: false })
    show()
    const button = await screen.findByRole<HTMLButtonElement>('button', { name: 'Merge…' })
    expect(button.disabled).toBe(true)
    const reason = document.getElementById(button.getAttribute('aria-describedby') ?? '')
    expect(reason?.textContent).toContain('Resolve the conflicts with main first')
    expect(screen.getByText('Conflicts with main')).toBeTruthy()
  })

  it('says while the code host looks for conflicts', async () => {
    pullIs({ mergeable: null })
    show()
    expect(await screen.findByText('Looking for conflicts with main…')).toBeTruthy()
  })

  it('that someone else made is named with its commit from the log of the task', async () => {
    pullIs({ state: 'merged', mergeable: null })
    const event = { sandbox_id: 't', id: 'e', source: 'system', created_at: '2026-11-19T10:00:00Z', emitted_at: null }
    const data = { task_id: 't', ticket_id: null, number: 7, base: 'main', commit: `beef123${'0'.repeat(33)}` }
    responses['GET /api/v1/tasks/t/events'] = () =>
      json({ events: [{ ...event, seq: 9, event_type: 'task.merged', event_data: data }], has_more: false })
    show()
    await waitFor(async () => expect((await panel()).textContent).toContain('Merged into main as beef123'))
    expect(screen.queryByRole('button', { name: 'Merge…' })).toBeNull()
  })
})

describe('comments on lines', () => {
  const SEND = 'POST /api/v1/sandboxes/s/messages'
  const bar = () => screen.queryByRole('region', { name: 'Comments' })
  beforeEach(() => {
    commentsOf('s').clear()
    responses[SEND] = () => json({ message_id: 'm', seq: 1, queue_size: 1 })
  })

  it('are sent to the agent as one message', async () => {
    show()
    await userEvent.click(await screen.findByRole('button', { name: 'Comment on line 1' }))
    await userEvent.type(screen.getByRole('textbox', { name: 'Comment on line 1' }), 'Call it later.')
    await userEvent.click(screen.getByRole('button', { name: 'Comment on removed line 1' }))
    const [above = document.body] = screen.getAllByRole('textbox', { name: 'Comment on line 1' })
    await userEvent.type(above, 'Why?')
    expect(bar()?.textContent).toContain('2 comments')
    await userEvent.click(screen.getByRole('button', { name: 'Send to the agent' }))
    await waitFor(() => expect(sent(SEND)).toHaveLength(1))
    const [message] = sent(SEND) as { content: string; message_type: string }[]
    expect(message?.message_type).toBe('user_message')
    expect(message?.content).toContain('src/count.ts:1\n> after\nCall it later.')
    expect(message?.content).toContain('src/count.ts:1 (removed line)\n> before\nWhy?')
    expect(bar()).toBeNull()
  })

  it('can be removed, and arrow keys reach every line', async () => {
    show()
    const first = await screen.findByRole('button', { name: 'Comment on removed line 1' })
    first.focus()
    await userEvent.keyboard('{ArrowDown}')
    expect(document.activeElement).toBe(screen.getByRole('button', { name: 'Comment on line 1' }))
    await userEvent.keyboard('{Enter}')
    expect(document.activeElement).toBe(screen.getByRole('textbox', { name: 'Comment on line 1' }))
    await userEvent.click(screen.getByRole('button', { name: 'Remove comment on line 1' }))
    expect(bar()).toBeNull()
  })

  it('cannot be sent to the agent of an ended sandbox, and are kept', async () => {
    commentsOf('s').add('src/count.ts', { side: 'new', line: 1, code: 'after' })
    commentsOf('s').write('src/count.ts', commentsOf('s').state()['src/count.ts']?.[0]?.id ?? '', 'Call it later.')
    show(true)
    await screen.findByRole('textbox', { name: 'Comment on line 1' })
    expect(screen.queryByRole('button', { name: 'Comment on line 1' })).toBeNull()
    expect(bar()?.textContent).toContain('The sandbox has ended')
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Send to the agent' }).disabled).toBe(true)
  })
})
