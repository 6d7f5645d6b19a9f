// @vitest-environment happy-dom
// @vitest-environment-options { "settings": { "disableIframePageLoading": true, "handleDisabledFileLoadingAsSuccess": true } }
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { act, cleanup, configure, fireEvent, render, screen, waitFor, within } from '@testing-library/react'
import { type ReactNode, useState } from 'react'
import { MemoryRouter, useLocation } from 'react-router'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import FilesTab from './files'
import PreviewTab from './preview'
import ReplayTab from './replay'
import TerminalTab from './terminal'
import { edited, ran, testLog } from './test-log'

// Each test renders an entire tab, and the machine may be busy.
vi.setConfig({ testTimeout: 20_000 })
configure({ asyncUtilTimeout: 10_000 })

const HUNK = '@@ -1 +1 @@\n-before\n+after\n'

function Address() {
  const { search } = useLocation()
  return <p aria-label="address">{search}</p>
}

function show(page: ReactNode, address = '/') {
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  const around = (inside: ReactNode) => (
    <QueryClientProvider client={queries}>
      <MemoryRouter initialEntries={[address]}>
        {inside}
        <Address />
      </MemoryRouter>
    </QueryClientProvider>
  )
  const shown = render(around(page))
  return { showInstead: (next: ReactNode) => shown.rerender(around(next)) }
}

const address = () => screen.getByLabelText('address').textContent

beforeEach(() => {
  // happy-dom has no layout, so give elements sizes that let the virtual list render everything.
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(2_000)
  vi.spyOn(HTMLElement.prototype, 'offsetHeight', 'get').mockReturnValue(40)
})
afterEach(() => {
  cleanup()
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

describe('the files of a run', () => {
  const log = testLog([
    edited('src/b.ts', HUNK),
    edited('notes.md', HUNK, { change_type: 'created' }),
    edited('src/b.ts', HUNK),
  ])

  it('are listed by folder with their status', () => {
    show(<FilesTab sandboxId="s" log={log} />)
    const files = screen.getAllByRole('option').map((option) => option.textContent)
    expect(files).toEqual([expect.stringContaining('Creatednotes.md'), expect.stringContaining('Modifiedb.ts')])
  })

  it('are selected with the keyboard, and the URL contains the selection', () => {
    show(<FilesTab sandboxId="s" log={log} />)
    expect(screen.getByRole('article', { name: 'notes.md' })).toBeTruthy()
    fireEvent.keyDown(screen.getByRole('listbox'), { key: 'ArrowDown' })
    expect(address()).toBe('?file=src%2Fb.ts')
    const file = screen.getByRole('article', { name: 'src/b.ts' })
    expect(
      within(file)
        .getAllByRole('link', { name: /Go to event/ })
        .map((link) => link.getAttribute('href')),
    ).toEqual(['/sandbox/s?tab=replay&at=1', '/sandbox/s?tab=replay&at=3'])
  })

  it('can be searched', () => {
    show(<FilesTab sandboxId="s" log={log} />)
    fireEvent.change(screen.getByRole('searchbox', { name: 'Search files' }), { target: { value: 'SRC' } })
    expect(screen.getAllByRole('option')).toHaveLength(1)
  })

  it('show an empty state if the URL names an unchanged file', () => {
    show(<FilesTab sandboxId="s" log={log} />, '/?file=unchanged.txt')
    expect(screen.getByText('File not changed in this run')).toBeTruthy()
  })

  it('load a long diff on demand', async () => {
    const fetched: string[] = []
    vi.stubGlobal('fetch', (path: string) => {
      fetched.push(path)
      return Promise.resolve(Response.json({ full_diff: '@@ -1 +1 @@\n-before\n+the very end\n' }))
    })
    const [type, data] = edited('long.ts', HUNK, { full_diff: null })
    show(<FilesTab sandboxId="s" log={testLog([[type, data, ['full_diff']]])} />)
    fireEvent.click(screen.getByRole('button', { name: 'Load full diff' }))
    await waitFor(() => expect(document.body.textContent).toContain('the very end'))
    expect(fetched).toEqual(['/api/v1/sandboxes/s/events/1/body'])
    expect(screen.queryByRole('button', { name: 'Load full diff' })).toBeNull()
  })

  it('load all events and show the progress', () => {
    const loadAll = vi.fn()
    show(<FilesTab sandboxId="s" log={{ ...log, complete: false, progress: { loaded: 500, of: 4_000 }, loadAll }} />)
    expect(loadAll).toHaveBeenCalled()
    expect(screen.getByText(/500 of 4,000/)).toBeTruthy()
  })
})

describe('the terminal', () => {
  const log = testLog([
    ...ran('1', 'npm test', '\u001b[32m12 passed\u001b[0m\nall fine'),
    ...ran('2', 'npm run lint', 'Exit code 2\nunused import', true),
    ['agent.tool_use', { tool: 'Bash', tool_use_id: '3', turn: 1, input: { command: 'npm start' } }],
  ])

  it('shows every command with output and outcome', () => {
    show(<TerminalTab sandboxId="s" log={log} />)
    const entries = screen.getAllByRole('listitem').map((entry) => entry.textContent)
    expect(entries).toHaveLength(3)
    expect(entries[0]).toContain('12 passed')
    expect(entries[1]).toContain('Failed with exit code 2')
    expect(entries[2]).toContain('Running')
  })

  it('can be limited to failed commands', () => {
    show(<TerminalTab sandboxId="s" log={log} />)
    fireEvent.click(screen.getByRole('button', { name: 'Only failed (1)' }))
    expect(screen.getAllByRole('listitem')).toHaveLength(1)
    expect(screen.getByText('npm run lint')).toBeTruthy()
  })

  it('shows the lines that match a search', () => {
    show(<TerminalTab sandboxId="s" log={log} />)
    fireEvent.change(screen.getByRole('searchbox'), { target: { value: 'passed' } })
    const lines = within(screen.getByRole('list', { name: 'Matching lines' })).getAllByRole('listitem')
    expect(lines.map((line) => line.textContent)).toEqual(['112 passed'])
    expect(screen.queryByText('npm run lint')).toBeNull()
  })
})

describe('the preview', () => {
  // The frames of these tests load no page, and happy-dom logs an error for each.
  beforeEach(() => void vi.spyOn(console, 'error').mockImplementation(() => undefined))
  const preview = (type: string, more = {}) => testLog([[`preview.${type}`, { port: 5173, ...more }]])

  it('shows that a server is starting', () => {
    show(<PreviewTab sandboxId="s" log={preview('starting')} />)
    expect(screen.getByRole('status').textContent).toContain('on port 5173')
  })

  /** A plane whose provider has this link, or none. */
  const provider = (url: string | null) => {
    const body = url === null ? { code: 'not_found', detail: 'no' } : { sandbox_id: 's', port: 5173, url }
    const status = url === null ? 404 : 200
    const requests = vi.fn(async () => Promise.resolve(new Response(JSON.stringify(body), { status })))
    vi.stubGlobal('fetch', requests)
    return requests
  }
  const frame = async () => screen.findByTitle("Preview of the agent's work")

  it("frames the provider's link with a separate origin, and not the URL of the worker", async () => {
    const requests = provider(`${window.location.origin}/`)
    const reported = { url: 'https://evil.example/login', framework: 'vite' }
    show(<PreviewTab sandboxId="s" log={preview('ready', reported)} />)
    expect((await frame()).getAttribute('src')).toBe(`${window.location.origin}/`)
    expect((await frame()).getAttribute('sandbox')).toBe('allow-scripts allow-forms allow-popups')
    expect(requests.mock.calls.map(String).join()).not.toContain('evil.example')
    expect(screen.queryByText(/evil\.example/)).toBeNull()
    expect(screen.getByText('vite')).toBeTruthy()
  })

  it('requests the link to the port of the machine', async () => {
    const requests = provider(`${window.location.origin}/`)
    show(<PreviewTab sandboxId="s" log={preview('ready', { forwarded_port: 40001 })} />)
    await frame()
    expect(requests.mock.calls.map(String).join()).toContain('/previews/40001')
  })

  it('shows the URL of a worker as a link with its host if the provider has no link', async () => {
    provider(null)
    show(<PreviewTab sandboxId="s" log={preview('ready', { url: 'https://evil.example/login?next=/' })} />)
    const link = await screen.findByRole('link', { name: 'evil.example' })
    expect(link.getAttribute('rel')).toContain('noopener')
    expect(document.querySelector('iframe')).toBeNull()
  })

  it('shows any other URL as text', async () => {
    provider(null)
    show(<PreviewTab sandboxId="s" log={preview('ready', { url: 'javascript:alert(1)' })} />)
    expect(await screen.findByText(/javascript:alert/)).toBeTruthy()
    expect(document.querySelector('iframe')).toBeNull()
    expect(screen.queryByRole('link')).toBeNull()
  })

  it('shows why it failed and can be opened anyway', async () => {
    provider('http://127.0.0.1:5173/')
    show(<PreviewTab sandboxId="s" log={preview('failed', { error: 'no page within 180 s' })} />)
    expect(screen.getByText('no page within 180 s')).toBeTruthy()
    fireEvent.click(screen.getByRole('button', { name: 'Open anyway' }))
    expect((await frame()).getAttribute('src')).toBe('http://127.0.0.1:5173/')
  })

  it('shows that the server stopped', () => {
    show(<PreviewTab sandboxId="s" log={preview('stopped')} />)
    expect(screen.getByText('Server stopped')).toBeTruthy()
  })
})

describe('the replay', () => {
  const inputs = [
    ['agent.started', { sdk: 'scripted' }],
    ['agent.message', { turn: 1, content: 'In the beginning' }],
    edited('first.txt', HUNK),
    ['agent.error', { error: 'The disk is full' }],
    ['agent.turn_completed', { turn: 1, success: true, cost_usd: 0.25 }],
    edited('second.txt', HUNK),
    ['agent.message', { turn: 2, content: 'In the end' }],
  ] as const
  const log = testLog(inputs)
  const slider = () => screen.getByLabelText('Position in the run')
  const moment = () => slider().getAttribute('aria-valuetext')

  it('shows rows, files and cost as of the event in the URL', async () => {
    show(<ReplayTab sandboxId="s" log={log} />, '/?tab=replay&at=5')
    expect(moment()).toMatch(/^event 5 of 7, .*, 4\.0 s in$/)
    await waitFor(() =>
      expect(screen.getByRole('region', { name: 'Events up to this point' }).textContent).toContain('The disk is full'),
    )
    expect(screen.queryByText('In the end')).toBeNull()
    const files = within(screen.getByRole('region', { name: 'Files (1)' }))
    expect(files.getByText('first.txt')).toBeTruthy()
    expect(screen.getByRole('region', { name: 'At this point' }).textContent).toContain('$0.25')
  })

  it('clamps the event in the URL to the end', () => {
    show(<ReplayTab sandboxId="s" log={log} />, '/?tab=replay&at=900')
    expect(moment()).toMatch(/^event 7 of 7/)
  })

  it('moves by events, errors and edits with the keyboard', () => {
    show(<ReplayTab sandboxId="s" log={log} />, '/?tab=replay&at=1')
    const after = (key: string) => {
      fireEvent.keyDown(document.body, { key })
      return moment()?.split(' ')[1]
    }
    expect(['ArrowRight', 'ArrowRight', 'ArrowLeft', 'e', 'd', 'D', 'End', 'E', 'Home'].map(after)).toEqual([
      '2',
      '3',
      '2',
      '4',
      '6',
      '3',
      '7',
      '4',
      '1',
    ])
  })

  it('moves the slider one event per key press', () => {
    show(<ReplayTab sandboxId="s" log={log} />, '/?tab=replay&at=2')
    fireEvent.keyDown(slider(), { key: 'ArrowRight' })
    expect(moment()).toMatch(/^event 3 of 7/)
  })

  it('ignores keys typed into other fields', () => {
    show(
      <>
        <input aria-label="other" />
        <ReplayTab sandboxId="s" log={log} />
      </>,
      '/?tab=replay&at=2',
    )
    fireEvent.keyDown(screen.getByLabelText('other'), { key: 'e' })
    expect(moment()).toMatch(/^event 2 of 7/)
  })

  it('disables jumps without a target', () => {
    show(<ReplayTab sandboxId="s" log={log} />, '/?tab=replay&at=4')
    expect(screen.getByRole('button', { name: 'Next error' }).hasAttribute('disabled')).toBe(true)
    expect(screen.getByRole('button', { name: 'Previous edit' }).hasAttribute('disabled')).toBe(false)
  })

  it('updates the URL only after a pause', () => {
    vi.useFakeTimers()
    show(<ReplayTab sandboxId="s" log={log} />, '/?tab=replay&at=1')
    fireEvent.click(screen.getByRole('button', { name: 'Next error' }))
    act(() => void vi.advanceTimersByTime(200))
    fireEvent.click(screen.getByRole('button', { name: 'Next edit' }))
    act(() => void vi.advanceTimersByTime(200))
    expect(address()).toBe('?tab=replay&at=1')
    act(() => void vi.advanceTimersByTime(100))
    expect(address()).toBe('?tab=replay&at=6')
    expect(moment()).toMatch(/^event 6 of 7/)
  })

  it('keeps its position while the run continues', () => {
    function Growing() {
      const [longer, setLonger] = useState(false)
      // A growing log keeps its event objects.
      const grown = testLog([...inputs, ['agent.message', { turn: 2, content: 'One more' }]])
      const events = [...log.events, ...grown.events.slice(log.events.length)]
      return (
        <>
          <button onClick={() => setLonger(true)}>Grow</button>
          <ReplayTab sandboxId="s" log={longer ? { ...grown, events } : log} />
        </>
      )
    }
    show(<Growing />, '/?tab=replay&at=3')
    fireEvent.click(screen.getByText('Grow'))
    expect(moment()).toMatch(/^event 3 of 8/)
  })

  it('plays to the end and stops there', () => {
    const start = 1_000
    vi.spyOn(performance, 'now').mockReturnValue(start)
    const frames: FrameRequestCallback[] = []
    vi.stubGlobal('requestAnimationFrame', (frame: FrameRequestCallback) => frames.push(frame))
    vi.stubGlobal('cancelAnimationFrame', () => undefined)
    show(<ReplayTab sandboxId="s" log={log} />, '/?tab=replay&at=1')
    fireEvent.click(screen.getByRole('button', { name: 'Play' }))
    act(() => frames.at(-1)?.(start + 2_500))
    expect(moment()).toMatch(/^event 3 of 7/)
    // The content follows the slider.
    expect(screen.getByRole('region', { name: 'Files (1)' })).toBeTruthy()
    act(() => frames.at(-1)?.(start + 60_000))
    expect(moment()).toMatch(/^event 7 of 7/)
    expect(screen.getByRole('button', { name: 'Play' })).toBeTruthy()
  })

  it('waits until all events are loaded', () => {
    show(<ReplayTab sandboxId="s" log={{ ...log, complete: false }} />)
    expect(screen.queryByRole('slider')).toBeNull()
    expect(screen.getByRole('progressbar', { name: 'Loading all events' })).toBeTruthy()
  })
})
