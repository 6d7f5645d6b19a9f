// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react'
import type { ReactNode } from 'react'
import { MemoryRouter } from 'react-router'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { Judgement } from './judgement'
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
  const asked = vi.fn<(path: string, init: { body?: string }) => Promise<Response>>(() => Promise.resolve(new Response(JSON.stringify(body), { status })))
  vi.stubGlobal('fetch', asked)
  return asked
}

const sent = (asked: ReturnType<typeof plane>): unknown => JSON.parse(asked.mock.calls[0]?.[1].body ?? 'null')

describe('Judgement', () => {
  it('accepts', async () => {
    const asked = plane()
    show(<Judgement sandboxId="s-1" taskId="t-1" />)
    fireEvent.click(screen.getByRole('button', { name: 'Accept' }))
    await waitFor(() => expect(asked).toHaveBeenCalled())
    expect(asked.mock.calls[0]?.[0]).toBe('/api/v1/sandboxes/s-1/validation-result')
    expect(sent(asked)).toEqual({ task_id: 't-1', passed: true, feedback: '' })
  })
  it('sends back only with a word on what is missing', async () => {
    const asked = plane()
    show(<Judgement sandboxId="s-1" taskId="t-1" />)
    fireEvent.click(screen.getByRole('button', { name: 'Send back…' }))
    expect(screen.getByRole('button', { name: 'Send back' }).hasAttribute('disabled')).toBe(true)
    fireEvent.change(screen.getByRole('textbox', { name: 'What is missing?' }), { target: { value: ' Tests. ' } })
    fireEvent.click(screen.getByRole('button', { name: 'Send back' }))
    await waitFor(() => expect(asked).toHaveBeenCalled())
    expect(sent(asked)).toEqual({ task_id: 't-1', passed: false, feedback: 'Tests.' })
  })
  it('says why it was refused', async () => {
    plane(403, { code: 'forbidden', detail: 'no' })
    show(<Judgement sandboxId="s-1" taskId="t-1" />)
    fireEvent.click(screen.getByRole('button', { name: 'Accept' }))
    expect((await screen.findByRole('alert')).textContent).toBe('Your role does not allow this.')
  })
})

describe('tabOf', () => {
  it('is the events where the address says nothing that there is', () => {
    expect([tabOf(null, true), tabOf('nonsense', true), tabOf('preview', false)]).toEqual(['events', 'events', 'events'])
    expect([tabOf('preview', true), tabOf('files', false)]).toEqual(['preview', 'files'])
  })
})
