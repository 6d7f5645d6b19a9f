// @vitest-environment happy-dom
import { act, cleanup, render, screen } from '@testing-library/react'
import { MemoryRouter, useLocation, useNavigate } from 'react-router'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { readView, useView, writeView } from './view'

describe('the URL of a view', () => {
  it('contains search and filter unless they are the default', () => {
    const address = (text: string) => new URLSearchParams(text)
    expect(readView(address('q=two%20words&status=failed'))).toEqual({ query: 'two words', filter: 'failed' })
    expect(readView(address('status=nonsense'))).toEqual({ query: '', filter: 'all' })
    expect(writeView(address('keep=1&q=x&status=failed'), { query: '  ', filter: 'all' }).toString()).toBe('keep=1')
    expect(writeView(address(''), { query: 'a&b', filter: 'running' }).toString()).toBe('q=a%26b&status=running')
  })
})

describe('typing', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => {
    cleanup()
    vi.useRealTimers()
  })

  let view: ReturnType<typeof useView>
  let navigate: ReturnType<typeof useNavigate>
  function Probe() {
    view = useView()
    navigate = useNavigate()
    return <p>{useLocation().search}</p>
  }
  const address = () => screen.getByRole('paragraph').textContent
  const open = (at: string) =>
    render(
      <MemoryRouter initialEntries={['/sandboxes', at]}>
        <Probe />
      </MemoryRouter>,
    )

  it('updates the list at once and the URL after a delay', () => {
    open('/sandboxes?status=failed')
    act(() => view.type('a'))
    act(() => view.type('ab'))
    expect(view.view).toEqual({ query: 'ab', filter: 'failed' })
    expect(address()).toBe('?status=failed')
    act(() => void vi.advanceTimersByTime(300))
    expect(address()).toBe('?status=failed&q=ab')
  })

  it('is not overwritten by a delayed URL update', () => {
    open('/sandboxes')
    act(() => view.type('a'))
    act(() => void vi.advanceTimersByTime(300))
    act(() => view.type('ab'))
    expect(view.view.query).toBe('ab')
    act(() => view.flush())
    expect(address()).toBe('?q=ab')
    expect(view.view.query).toBe('ab')
  })

  it('replaces the history entry, and the field follows the back button', () => {
    open('/sandboxes?q=old')
    act(() => view.type('older'))
    act(() => void vi.advanceTimersByTime(300))
    act(() => void navigate(-1))
    expect(address()).toBe('')
    expect(view.view.query).toBe('')
    act(() => void navigate(1))
    expect(view.view.query).toBe('older')
  })

  it('is kept when a filter is chosen and cleared with it', () => {
    open('/sandboxes')
    act(() => view.type('a'))
    act(() => view.choose('running'))
    expect(address()).toBe('?q=a&status=running')
    act(() => view.clear())
    expect(address()).toBe('')
    expect(view.view).toEqual({ query: '', filter: 'all' })
  })
})
