import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { act, configure, render } from '@testing-library/react'
import type { ReactNode } from 'react'
import { MemoryRouter, Route, Routes, useLocation } from 'react-router'
import { vi } from 'vitest'
import type { EventFrame, FilterChange } from '../../api/contract'
import type { LiveHandle } from '../../api/use-live'
import { Toasts } from '../../ui/toast'

// Computing roles is slow in happy-dom, and the test machine may be busy.
configure({ asyncUtilTimeout: 10_000 })
vi.setConfig({ testTimeout: 30_000 })

/** Replaces the socket: tests emit frames with it. `vi.mock` puts it in place of `useLive`. */
export const socket = {
  connection: 'live' as LiveHandle['connection'],
  onFrame: (() => undefined) as (frame: EventFrame) => void,
  subscribed: (() => undefined) as () => void,
  useLive: (_filters: FilterChange, onFrame: (frame: EventFrame) => void, subscribed: () => void): LiveHandle => {
    socket.onFrame = onFrame
    socket.subscribed = subscribed
    return { connection: socket.connection, detail: null, subscribed: true, retry: () => undefined }
  },
  /** Sends an event frame to the page. */
  emit(entityType: 'task' | 'ticket' | 'sandbox', entityId: string, payload: EventFrame['payload'] = {}) {
    act(() =>
      socket.onFrame({
        id: 'frame',
        seq: 1,
        event_type: 'TEST',
        entity_type: entityType,
        entity_id: entityId,
        payload,
        timestamp: '2026-11-17T10:00:00.000000Z',
      }),
    )
  },
}

/** Renders a page at a URL. Other pages are stubs; tests only check the URL. */
export function show(page: ReactNode, path: string, at: string) {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false, gcTime: 0 } } })
  const view = render(
    <QueryClientProvider client={client}>
      <MemoryRouter initialEntries={[at]}>
        <Routes>
          <Route path={path} element={page} />
          <Route path="/sandbox/:id" element={<p>The sandbox page</p>} />
          <Route path="/compare" element={<p>The compare page</p>} />
        </Routes>
        <Address />
        <Toasts />
      </MemoryRouter>
    </QueryClientProvider>,
  )
  return { ...view, client }
}

function Address() {
  const { pathname, search } = useLocation()
  return <output aria-label="Address">{pathname + search}</output>
}

/** happy-dom has no layout, and a virtual list of zero height renders no rows, so give elements fixed sizes. */
export function mockLayout() {
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(700)
  vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(900)
  vi.spyOn(HTMLElement.prototype, 'offsetHeight', 'get').mockReturnValue(140)
}
