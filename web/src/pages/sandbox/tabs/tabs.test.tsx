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

// Each draws a whole tab, on machines that do other things at the same time.
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
  // There is no layout here, and a virtual list shows what fits: everything does.
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(2_000)
  vi.spyOn(HTMLElement.prototype, 'offsetHeight', 'get').mockReturnValue(40)
})
afterEach(() => {
  cleanup()
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

describe('the files of a run', () => {
  const log = testLog([edited('src/b.ts', HUNK), edited('notes.md', HUNK, { change_type: 'created' }), edited('src/b.ts', HUNK)])

  it('are listed by folder, with a word for what happened to each', () => {
    show(<FilesTab sandboxId="s" log={log} />)
    const files = screen.getAllByRole('option').map((option) => option.textContent)
    expect(files).toEqual([expect.stringContaining('Creatednotes.md'), expect.stringContaining('Modifiedb.ts')])
  })

  it('are walked with the keys, and the address says which is shown', () => {
    show(<FilesTab sandboxId="s" log={log} />)
    expect(screen.getByRole('article', { name: 'notes.md' })).toBeTruthy()
    fireEvent.keyDown(screen.getByRole('listbox'), { key: 'ArrowDown' })
    expect(address()).toBe('?file=src%2Fb.ts')
    const file = screen.getByRole('article', { name: 'src/b.ts' })
    expect(within(file).getAllByRole('link', { name: /moment/ }).map((link) => link.getAttribute('href'))).toEqual([
      '/sandbox/s?tab=replay&at=1',
      '/sandbox/s?tab=replay&at=3',
    ])
  })

  it('are searched', () => {
    show(<FilesTab sandboxId="s" log={log} />)
    fireEvent.change(screen.getByRole('searchbox', { name: 'Search files' }), { target: { value: 'SRC' } })
    expect(screen.getAllByRole('option')).toHaveLength(1)
  })

  it('say so where the address names one that did not change', () => {
    show(<FilesTab sandboxId="s" log={log} />, '/?file=gone.txt')
    expect(screen.getByText('This run has not changed that file')).toBeTruthy()
  })

  it('have the rest of a long diff fetched when somebody asks', async () => {
    const fetched: string[] = []
    vi.stubGlobal('fetch', (path: string) => {
      fetched.push(path)
      return Promise.resolve(Response.json({ full_diff: '@@ -1 +1 @@\n-before\n+the very end\n' }))
    })
    const [type, data] = edited('long.ts', HUNK, { full_diff: null })
    show(<FilesTab sandboxId="s" log={testLog([[type, data, ['full_diff']]])} />)
    fireEvent.click(screen.getByRole('button', { name: 'Load the full diff' }))
    await waitFor(() => expect(document.body.textContent).toContain('the very end'))
    expect(fetched).toEqual(['/api/v1/sandboxes/s/events/1/body'])
    expect(screen.queryByRole('button', { name: 'Load the full diff' })).toBeNull()
  })

  it('ask for the whole run, and tell how far that is', () => {
    const loadAll = vi.fn()
    show(<FilesTab sandboxId="s" log={{ ...log, whole: false, progress: { loaded: 500, of: 4_000 }, loadAll }} />)
    expect(loadAll).toHaveBeenCalled()
    expect(screen.getByText(/500 of 4,000 events/)).toBeTruthy()
  })
})

describe('the terminal', () => {
  const log = testLog([
    ...ran('1', 'npm test', '\u001b[32m12 passed\u001b[0m\nall fine'),
    ...ran('2', 'npm run lint', 'Exit code 2\nunused import', true),
    ['agent.tool_use', { tool: 'Bash', tool_use_id: '3', turn: 1, input: { command: 'npm start' } }],
  ])

  it('has every command with its output and how it ended, in words', () => {
    show(<TerminalTab sandboxId="s" log={log} />)
    const entries = screen.getAllByRole('listitem').map((entry) => entry.textContent)
    expect(entries).toHaveLength(3)
    expect(entries[0]).toContain('12 passed')
    expect(entries[1]).toContain('Failed with exit code 2')
    expect(entries[2]).toContain('Running')
  })

  it('can be reduced to what failed', () => {
    show(<TerminalTab sandboxId="s" log={log} />)
    fireEvent.click(screen.getByRole('button', { name: 'Only failed (1)' }))
    expect(screen.getAllByRole('listitem')).toHaveLength(1)
    expect(screen.getByText('npm run lint')).toBeTruthy()
  })

  it('shows the lines that somebody looks for', () => {
    show(<TerminalTab sandboxId="s" log={log} />)
    fireEvent.change(screen.getByRole('searchbox'), { target: { value: 'passed' } })
    const lines = within(screen.getByRole('list', { name: 'Lines that were found' })).getAllByRole('listitem')
    expect(lines.map((line) => line.textContent)).toEqual(['112 passed'])
    expect(screen.queryByText('npm run lint')).toBeNull()
  })
})

describe('the preview', () => {
  // No page is loaded into the frames of these tests, and happy-dom complains of that at length.
  beforeEach(() => void vi.spyOn(console, 'error').mockImplementation(() => undefined))
  const preview = (type: string, more = {}) => testLog([[`preview.${type}`, { port: 5173, ...more }]])

  it('waits for a server that is starting', () => {
    show(<PreviewTab sandboxId="s" log={preview('starting')} />)
    expect(screen.getByRole('status').textContent).toContain('at port 5173')
  })

  it('shows a page that is ready, in a frame that cannot become this page', () => {
    show(<PreviewTab sandboxId="s" log={preview('ready', { url: `${window.location.origin}/`, framework: 'vite' })} />)
    const frame = screen.getByTitle('Preview of what the agent is building')
    expect(frame.getAttribute('sandbox')).toBe('allow-scripts allow-forms allow-popups')
    expect(screen.getByText('vite')).toBeTruthy()
  })

  it('shows any other address as text', () => {
    show(<PreviewTab sandboxId="s" log={preview('ready', { url: 'javascript:alert(1)' })} />)
    expect(document.querySelector('iframe')).toBeNull()
    expect(screen.queryByRole('link')).toBeNull()
    expect(screen.getByText(/javascript:alert/)).toBeTruthy()
  })

  it('says why it failed, and tries again when it is told to', () => {
    show(<PreviewTab sandboxId="s" log={preview('failed', { error: 'no page within 180 s' })} />)
    expect(screen.getByText('no page within 180 s')).toBeTruthy()
    fireEvent.click(screen.getByRole('button', { name: 'Try it again' }))
    expect(screen.getByTitle('Preview of what the agent is building').getAttribute('src')).toBe('http://localhost:5173/')
  })

  it('says that it has stopped', () => {
    show(<PreviewTab sandboxId="s" log={preview('stopped')} />)
    expect(screen.getByText('The server has stopped')).toBeTruthy()
  })
})

describe('the replay', () => {
  const told = [
    ['agent.started', { sdk: 'scripted' }],
    ['agent.message', { turn: 1, content: 'In the beginning' }],
    edited('first.txt', HUNK),
    ['agent.error', { error: 'The disk is full' }],
    ['agent.turn_completed', { turn: 1, success: true, cost_usd: 0.25 }],
    edited('second.txt', HUNK),
    ['agent.message', { turn: 2, content: 'In the end' }],
  ] as const
  const log = testLog(told)
  const slider = () => screen.getByLabelText('Moment of the run')
  const moment = () => slider().getAttribute('aria-valuetext')

  it('shows a run as it was at the moment that the address names: rows, files and cost', async () => {
    show(<ReplayTab sandboxId="s" log={log} />, '/?tab=replay&at=5')
    expect(moment()).toMatch(/^event 5 of 7, .*, 4\.0 s in$/)
    await waitFor(() => expect(screen.getByRole('region', { name: 'Events up to this moment' }).textContent).toContain('The disk is full'))
    expect(screen.queryByText('In the end')).toBeNull()
    const files = within(screen.getByRole('region', { name: 'Files (1)' }))
    expect(files.getByText('first.txt')).toBeTruthy()
    expect(screen.getByRole('region', { name: 'As of this moment' }).textContent).toContain('$0.25')
  })

  it('begins at the end, and goes to an end that the address overshoots', () => {
    show(<ReplayTab sandboxId="s" log={log} />, '/?tab=replay&at=900')
    expect(moment()).toMatch(/^event 7 of 7/)
  })

  it('goes by keys: events, errors, edits, both ends', () => {
    show(<ReplayTab sandboxId="s" log={log} />, '/?tab=replay&at=1')
    const after = (key: string) => {
      fireEvent.keyDown(document.body, { key })
      return moment()?.split(' ')[1]
    }
    expect(['ArrowRight', 'ArrowRight', 'ArrowLeft', 'e', 'd', 'D', 'End', 'E', 'Home'].map(after)).toEqual(
      ['2', '3', '2', '4', '6', '3', '7', '4', '1'],
    )
  })

  it('steps by events on the slider, too, and once for each key', () => {
    show(<ReplayTab sandboxId="s" log={log} />, '/?tab=replay&at=2')
    fireEvent.keyDown(slider(), { key: 'ArrowRight' })
    expect(moment()).toMatch(/^event 3 of 7/)
  })

  it('leaves keys alone that somebody types elsewhere', () => {
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

  it('offers no jump where there is nothing to jump to', () => {
    show(<ReplayTab sandboxId="s" log={log} />, '/?tab=replay&at=4')
    expect(screen.getByRole('button', { name: 'Next error' }).hasAttribute('disabled')).toBe(true)
    expect(screen.getByRole('button', { name: 'Previous edit' }).hasAttribute('disabled')).toBe(false)
  })

  it('writes the moment into the address once the reader rests there, and not before', () => {
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

  it('stays where it is while the run goes on', () => {
    function Growing() {
      const [longer, setLonger] = useState(false)
      // A log that grows keeps the events that it has.
      const grown = testLog([...told, ['agent.message', { turn: 2, content: 'One more' }]])
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
    const begun = 1_000
    vi.spyOn(performance, 'now').mockReturnValue(begun)
    const frames: FrameRequestCallback[] = []
    vi.stubGlobal('requestAnimationFrame', (frame: FrameRequestCallback) => frames.push(frame))
    vi.stubGlobal('cancelAnimationFrame', () => undefined)
    show(<ReplayTab sandboxId="s" log={log} />, '/?tab=replay&at=1')
    fireEvent.click(screen.getByRole('button', { name: 'Play' }))
    act(() => frames.at(-1)?.(begun + 2_500))
    expect(moment()).toMatch(/^event 3 of 7/)
    // What is seen keeps up with the slider.
    expect(screen.getByRole('region', { name: 'Files (1)' })).toBeTruthy()
    act(() => frames.at(-1)?.(begun + 60_000))
    expect(moment()).toMatch(/^event 7 of 7/)
    expect(screen.getByRole('button', { name: 'Play' })).toBeTruthy()
  })

  it('waits for the whole run', () => {
    show(<ReplayTab sandboxId="s" log={{ ...log, whole: false }} />)
    expect(screen.queryByRole('slider')).toBeNull()
    expect(screen.getByRole('progressbar', { name: 'Loading the whole run' })).toBeTruthy()
  })
})
