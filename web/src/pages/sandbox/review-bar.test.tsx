// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react'
import type { ReactNode } from 'react'
import { MemoryRouter } from 'react-router'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { ReviewBar } from './review-bar'
import { tabOf } from './tab'

afterEach(() => {
  cleanup()
  vi.unstubAllGlobals()
})

const show = (what: ReactNode) =>
  render(
    <QueryClientProvider client={new QueryClient()}>
      <MemoryRouter>{what}</MemoryRouter>
    </QueryClientProvider>,
  )

function plane(status = 200, body: object = {}) {
  const requests = vi.fn<(path: string, init: { body?: string }) => Promise<Response>>(() =>
    Promise.resolve(new Response(JSON.stringify(body), { status })),
  )
  vi.stubGlobal('fetch', requests)
  return requests
}

const sent = (requests: ReturnType<typeof plane>): unknown => JSON.parse(requests.mock.calls[0]?.[1].body ?? 'null')

describe('ReviewBar', () => {
  it('accepts a result', async () => {
    const requests = plane()
    show(<ReviewBar sandboxId="s-1" taskId="t-1" />)
    fireEvent.click(screen.getByRole('button', { name: 'Accept' }))
    await waitFor(() => expect(requests).toHaveBeenCalled())
    expect(requests.mock.calls[0]?.[0]).toBe('/api/v1/sandboxes/s-1/validation-result')
    expect(sent(requests)).toEqual({ task_id: 't-1', passed: true, feedback: '' })
  })
  it('requires feedback for sending a result back', async () => {
    const requests = plane()
    show(<ReviewBar sandboxId="s-1" taskId="t-1" />)
    fireEvent.click(screen.getByRole('button', { name: 'Send back…' }))
    expect(screen.getByRole('button', { name: 'Send back' }).hasAttribute('disabled')).toBe(true)
    fireEvent.change(screen.getByRole('textbox', { name: 'What needs to change?' }), { target: { value: ' Tests. ' } })
    fireEvent.click(screen.getByRole('button', { name: 'Send back' }))
    await waitFor(() => expect(requests).toHaveBeenCalled())
    expect(sent(requests)).toEqual({ task_id: 't-1', passed: false, feedback: 'Tests.' })
  })
  it('shows why a review was rejected', async () => {
    plane(403, { code: 'forbidden', detail: 'no' })
    show(<ReviewBar sandboxId="s-1" taskId="t-1" />)
    fireEvent.click(screen.getByRole('button', { name: 'Accept' }))
    expect((await screen.findByRole('alert')).textContent).toBe('You do not have permission to do this.')
  })
})

describe('tabOf', () => {
  const none = { preview: false, changes: false }
  it('falls back to events', () => {
    expect([tabOf(null, { preview: true, changes: true }), tabOf('nonsense', none), tabOf('preview', none)]).toEqual([
      'events',
      'events',
      'events',
    ])
    expect([tabOf('preview', { ...none, preview: true }), tabOf('files', none)]).toEqual(['preview', 'files'])
  })
  it('has changes only of a task', () => {
    expect([tabOf('changes', none), tabOf('changes', { ...none, changes: true })]).toEqual(['events', 'changes'])
  })
})
