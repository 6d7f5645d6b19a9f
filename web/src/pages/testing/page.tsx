import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { act, configure, render } from '@testing-library/react'
import type { ReactNode } from 'react'
import { MemoryRouter, Route, Routes, useLocation } from 'react-router'
import { vi } from 'vitest'
import type { EventFrame, FilterChange } from '../../api/contract'
import type { LiveHandle } from '../../api/use-live'
import { Toasts } from '../../ui/toast'

// Roles are worked out slowly here, and the machine that tests may have other things to do.
configure({ asyncUtilTimeout: 10_000 })
vi.setConfig({ testTimeout: 30_000 })

/** Stands in for the socket: tests say what comes over it. `vi.mock` puts it in the place of `useLive`. */
export const socket = {
  connection: 'live' as LiveHandle['connection'],
  hear: (() => undefined) as (frame: EventFrame) => void,
  subscribed: (() => undefined) as () => void,
  useLive: (_filters: FilterChange, hear: (frame: EventFrame) => void, subscribed: () => void): LiveHandle => {
    socket.hear = hear
    socket.subscribed = subscribed
    return { connection: socket.connection, detail: null, subscribed: true, retry: () => undefined }
  },
  /** The plane tells of something. */
  tell(entityType: 'task' | 'ticket' | 'sandbox', entityId: string, payload: EventFrame['payload'] = {}) {
    act(() =>
      socket.hear({
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

/** Shows a page at an address. The sandbox page is a word: where the reader has come to is what counts. */
export function show(page: ReactNode, path: string, at: string) {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false, gcTime: 0 } } })
  const view = render(
    <QueryClientProvider client={client}>
      <MemoryRouter initialEntries={[at]}>
        <Routes>
          <Route path={path} element={page} />
          <Route path="/sandbox/:id" element={<p>The sandbox page</p>} />
          <Route path="/compare" element={<p>The page that compares</p>} />
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

/** Nothing has a size here, and a virtual list shows nothing: windows are so tall, and rows so low. */
export function pretendLayout() {
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(700)
  vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(900)
  vi.spyOn(HTMLElement.prototype, 'offsetHeight', 'get').mockReturnValue(140)
}
