// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { JsonObject } from '../../../api/contract'
import type { Log } from '../../../api/use-log'
import { emptyView } from '../../../api/log-view'
import { logEvent } from '../../../timeline/event'
import { type EventInput, log as logOf, queued, queuedAgain, receipt } from '../../../timeline/fixtures'
import { fold } from '../../../timeline/fold'
import { Composer } from './composer'

const log: Log = { ...emptyView, loadOlder: () => undefined, loadAll: () => undefined, retry: () => undefined }

const queries = new QueryClient()
const sent: JsonObject[] = []
let respond: () => Response = accepted
let number = 0
/** A new sandbox for each test, so that tests do not share an outbox. */
let sandboxId = ''

function accepted() {
  return Response.json({ status: 'queued', message_id: 'm', sandbox_id: 's', queue_size: 1, seq: 7 })
}

const problem = (status: number, code: string) => () =>
  Response.json({ type: 't', title: 't', status, code, detail: 'No.', request_id: 'r' }, { status })

beforeEach(() => {
  number += 1
  sandboxId = `s-${number}`
  sent.length = 0
  respond = accepted
  localStorage.clear()
  vi.stubGlobal('fetch', (_: string, { body }: { body: string }) => {
    sent.push(JSON.parse(body) as JsonObject)
    return Promise.resolve(respond())
  })
})
afterEach(() => {
  cleanup()
  vi.unstubAllGlobals()
})

const show = (over: Partial<Log> = {}, ended = false) => (
  <QueryClientProvider client={queries}>
    <Composer sandboxId={sandboxId} log={{ ...log, ...over }} ended={ended} />
  </QueryClientProvider>
)
const field = () => screen.getByRole<HTMLTextAreaElement>('textbox', { name: 'Message to the agent' })
const button = (name: string) => screen.getByRole('button', { name })
const withQueuedMessage = (id: unknown): Partial<Log> => ({
  last: 7,
  events: [
    logEvent({
      seq: 7,
      id: 'e',
      type: 'message.queued',
      raw: { message_id: String(id) },
      source: 'user',
      at: '',
      body: null,
    }),
  ],
})

describe('the composer', () => {
  it('sends with Enter and adds a line with Shift+Enter', async () => {
    const user = userEvent.setup()
    const { rerender } = render(show())
    await user.type(field(), 'one{Shift>}{Enter}{/Shift}two')
    expect(sent).toEqual([])
    expect(field().value).toBe('one\ntwo')
    await user.keyboard('{Enter}')
    await waitFor(() => expect(sent).toMatchObject([{ content: 'one\ntwo', message_type: 'user_message' }]))
    expect(sent[0]?.['message_id']).toMatch(/^message-[0-9a-f]{32}$/)
    expect(field().value).toBe('')
    expect(await screen.findByText('Queued')).toBeTruthy()
    rerender(show(withQueuedMessage(sent[0]?.['message_id'])))
    expect(screen.queryByText('one\ntwo')).toBeNull()
    expect(screen.getByRole('status').textContent).toBe('Message received.')
    expect(localStorage.length).toBe(0)
  })

  it('lists undeliverable messages until they are sent again', () => {
    const failed = [queued('m', 'Use SQLite.'), receipt('m', 'undeliverable', { deliveries: 10 })]
    const withEvents = (...events: EventInput[]) => ({ timeline: fold(logOf(...events)) })
    const { rerender } = render(show(withEvents(queued('n', 'Go on.'), ...failed)))
    expect(screen.getByRole('alert').textContent).toBe('A message is undeliverable.')
    const list = screen.getByRole('list', { name: 'Undeliverable messages' })
    expect(list.textContent).toContain('Use SQLite.')
    expect(list.textContent).not.toContain('Go on.')
    expect(list.textContent).toContain('Undeliverable: the worker took it 10 times and never confirmed it.')
    expect(button('Send again')).toBeTruthy()
    rerender(show(withEvents(...failed, queuedAgain('m', 'Use SQLite.', 2))))
    expect(screen.queryByRole('list', { name: 'Undeliverable messages' })).toBeNull()
    rerender(show(withEvents(...failed), true))
    expect(screen.queryByRole('list', { name: 'Undeliverable messages' })).toBeNull()
  })

  it('leaves Enter to an active input method', async () => {
    render(show())
    fireEvent.change(field(), { target: { value: 'にほん' } })
    fireEvent.keyDown(field(), { key: 'Enter', isComposing: true })
    fireEvent.keyDown(field(), { key: 'Enter', keyCode: 229 })
    expect(field().value).toBe('にほん')
    fireEvent.keyDown(field(), { key: 'Enter' })
    expect(field().value).toBe('')
    await waitFor(() => expect(sent).toMatchObject([{ content: 'にほん' }]))
  })

  it('does not send blank or too long messages', async () => {
    render(show())
    fireEvent.change(field(), { target: { value: '  \n ' } })
    fireEvent.keyDown(field(), { key: 'Enter' })
    expect(button('Send')).toHaveProperty('disabled', true)
    fireEvent.change(field(), { target: { value: 'x'.repeat(10_001) } })
    fireEvent.keyDown(field(), { key: 'Enter' })
    expect(screen.getByText('10,001 characters. The maximum is 10,000.')).toBeTruthy()
    expect(button('Send')).toHaveProperty('disabled', true)
    expect(field().value).toHaveLength(10_001)
    await new Promise((resolve) => setImmediate(resolve))
    expect(sent).toEqual([])
  })

  it('keeps a failed message with its error and retries it', async () => {
    respond = problem(403, 'forbidden')
    const user = userEvent.setup()
    render(show())
    await user.type(field(), 'hello{Enter}')
    expect(
      await screen.findByText('Not sent. You do not have permission to do this.', { selector: 'span' }),
    ).toBeTruthy()
    expect(screen.getByText('hello')).toBeTruthy()
    expect(screen.getByRole('status').textContent).toBe('Not sent. You do not have permission to do this.')
    respond = accepted
    await user.click(button('Retry'))
    expect(await screen.findByText('Queued')).toBeTruthy()
    expect(sent).toHaveLength(2)
    expect(sent[1]).toEqual(sent[0])
  })

  it('resends a pending message once after a reload with the same id', async () => {
    vi.stubGlobal('fetch', (_: string, { body }: { body: string }) => {
      sent.push(JSON.parse(body) as JsonObject)
      return sent.length === 1 ? new Promise(() => undefined) : Promise.resolve(accepted())
    })
    const user = userEvent.setup()
    const { unmount } = render(show())
    await user.type(field(), 'hello{Enter}')
    await user.type(field(), 'and th')
    unmount()
    vi.resetModules()
    const { Composer: Reloaded } = await import('./composer')
    render(<Reloaded sandboxId={sandboxId} log={log} ended={false} />)
    expect(await screen.findByText('Queued')).toBeTruthy()
    expect(sent).toHaveLength(2)
    expect(sent[1]).toEqual(sent[0])
    expect(field().value).toBe('and th')
  })

  it('interrupts with or without text', async () => {
    const user = userEvent.setup()
    render(show())
    await user.click(button('Interrupt'))
    await waitFor(() => expect(sent).toMatchObject([{ message_type: 'interrupt' }]))
    await user.type(field(), 'use SQLite{Control>}{Enter}{/Control}')
    await waitFor(() => expect(sent[1]).toMatchObject({ message_type: 'interrupt', content: 'use SQLite' }))
  })

  it('asks for confirmation before it stops everything', async () => {
    const user = userEvent.setup()
    render(show())
    await user.click(button('Stop everything'))
    expect(document.activeElement).toBe(button('Stop everything now'))
    await user.keyboard('{Escape}')
    expect(sent).toEqual([])
    await user.click(button('Stop everything'))
    await user.click(button('Cancel'))
    await user.click(button('Stop everything'))
    await user.click(button('Stop everything now'))
    await waitFor(() => expect(sent).toMatchObject([{ message_type: 'stop' }]))
    expect(button('Stop everything')).toBeTruthy()
  })

  it('is disabled after the sandbox ended and keeps the draft', () => {
    const { rerender } = render(show())
    fireEvent.change(field(), { target: { value: 'too late' } })
    rerender(show({}, true))
    expect(field().disabled).toBe(true)
    expect(field().value).toBe('too late')
    expect(screen.getByText('Sandbox ended. Its events are kept.')).toBeTruthy()
    for (const name of ['Send', 'Interrupt', 'Stop everything']) expect(button(name)).toHaveProperty('disabled', true)
  })
})
