// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { cleanup, render, screen } from '@testing-library/react'
import { MemoryRouter } from 'react-router'
import { afterEach, describe, expect, it } from 'vitest'
import { Header } from './header'
import { testLog } from './tabs/test-log'

afterEach(cleanup)

function show(tier: string | null) {
  const log = testLog(tier === null ? [] : [['worker.isolation', { tier, not_covered: [] }]])
  render(
    <QueryClientProvider client={new QueryClient()}>
      <MemoryRouter>
        <Header sandboxId="s-1" sandbox={null} task={null} log={log} />
      </MemoryRouter>
    </QueryClientProvider>,
  )
}

describe('the isolation of the agent in the header', () => {
  it('warns if there is none', () => {
    show('none')
    expect(screen.getByText('Not isolated')).toBeTruthy()
    expect(screen.queryByText(/^Isolation/)).toBeNull()
  })

  it('names the tier', () => {
    show('landlock')
    expect(screen.getByText('Isolation: landlock')).toBeTruthy()
    expect(screen.queryByText('Not isolated')).toBeNull()
  })

  it('is not claimed before the worker reports it', () => {
    show(null)
    expect(screen.queryByText(/solat/)).toBeNull()
  })
})
