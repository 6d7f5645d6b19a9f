// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { cleanup, render, screen } from '@testing-library/react'
import { MemoryRouter } from 'react-router'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { PullRequestOut, TaskOut } from '../../api/contract'
import { json } from '../testing/plane'
import { taskWith } from '../testing/samples'
import { Header } from './header'
import { testLog } from './tabs/test-log'

afterEach(() => {
  cleanup()
  vi.unstubAllGlobals()
})

function show(tier: string | null, task: TaskOut | null = null) {
  const log = testLog(tier === null ? [] : [['worker.isolation', { tier, not_covered: [] }]])
  render(
    <QueryClientProvider client={new QueryClient()}>
      <MemoryRouter>
        <Header sandboxId="s-1" sandbox={null} task={task} log={log} />
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

describe('the branch in the header', () => {
  const branch = { name: 'feature/count', base: 'main', base_commit: '0'.repeat(40) }
  const link = { number: 7, url: 'https://github.example/a/b/pull/7', commit: 'a'.repeat(40) }

  it('is shown with a button that copies it', () => {
    show(null, taskWith({ sandbox_id: 's-1', branch }))
    expect(screen.getByText('feature/count')).toBeTruthy()
    expect(screen.getByRole('button', { name: 'Copy branch name' })).toBeTruthy()
    expect(screen.queryByRole('link', { name: /Pull request/ })).toBeNull()
  })

  it('has the pull request with its state and checks', async () => {
    const pull: Partial<PullRequestOut> = { number: 7, url: link.url, state: 'open', ci_status: 'pending', checks: [] }
    vi.stubGlobal('fetch', () => Promise.resolve(json(pull)))
    show(null, taskWith({ sandbox_id: 's-1', branch: { ...branch, pull_request: link } }))
    expect(screen.getByRole('link', { name: 'Pull request #7' }).getAttribute('href')).toBe(link.url)
    expect(await screen.findByText('Open')).toBeTruthy()
    expect(screen.getByRole('button', { name: 'Checks running' })).toBeTruthy()
  })

  it('has a merged pull request even if the code host does not respond', () => {
    vi.stubGlobal('fetch', () => new Promise(() => undefined))
    const merged = { ...link, merged_at: '2026-11-19T10:00:00Z' }
    show(null, taskWith({ sandbox_id: 's-1', branch: { ...branch, pull_request: merged } }))
    expect(screen.getByText('Merged')).toBeTruthy()
  })

  it('leads to the changes if the code host has no page for the pull request', () => {
    vi.stubGlobal('fetch', () => new Promise(() => undefined))
    const local = { ...link, url: 'refs/sunaba/pull/7/head' }
    show(null, taskWith({ sandbox_id: 's-1', branch: { ...branch, pull_request: local } }))
    expect(screen.getByRole('link', { name: 'Pull request #7' }).getAttribute('href')).toBe('/?tab=changes')
  })

  it('is absent without a branch', () => {
    show(null, taskWith({ sandbox_id: 's-1' }))
    expect(screen.queryByRole('button', { name: 'Copy branch name' })).toBeNull()
  })
})
