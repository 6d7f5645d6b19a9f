// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { cleanup, configure, render, screen } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { MemoryRouter } from 'react-router'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Panels } from './panels'
import { testLog } from './tabs/test-log'

configure({ asyncUtilTimeout: 10_000 })
vi.setConfig({ testTimeout: 30_000 })

beforeEach(() => {
  vi.stubGlobal('fetch', () => new Promise(() => undefined))
})
afterEach(() => {
  cleanup()
  vi.unstubAllGlobals()
})

function show(hasChanges: boolean, at: string) {
  render(
    <QueryClientProvider client={new QueryClient()}>
      <MemoryRouter initialEntries={[at]}>
        <Panels sandboxId="s" log={testLog([])} hasChanges={hasChanges} composer={<p>The composer</p>} />
      </MemoryRouter>
    </QueryClientProvider>,
  )
}

const selected = () => screen.getByRole('tab', { selected: true }).textContent

describe('the tabs of a sandbox', () => {
  it('include the changes of a branch, which open with the keyboard', async () => {
    show(true, '/')
    screen.getByRole('tab', { name: 'Files' }).focus()
    await userEvent.keyboard('{ArrowRight}{Enter}')
    expect(selected()).toBe('Changes')
    expect(await screen.findByText(/Loading/)).toBeTruthy()
    expect(screen.queryByText('The composer')).toBeNull()
  })

  it('include no changes without a branch', () => {
    show(false, '/?tab=changes')
    expect(selected()).toBe('Events')
    expect(screen.queryByRole('tab', { name: 'Changes' })).toBeNull()
  })
})
