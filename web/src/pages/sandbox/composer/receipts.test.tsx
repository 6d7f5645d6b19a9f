// @vitest-environment happy-dom
import { cleanup, render, screen } from '@testing-library/react'
import { userEvent } from '@testing-library/user-event'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { MessageState } from '../../../api/contract'
import { Receipts } from './receipts'

afterEach(cleanup)

const receipts = (...states: MessageState[]) =>
  states.map((state, index) => ({ state, at: `2026-01-01T12:00:0${index}Z`, detail: null }))

describe('receipts', () => {
  it('show each delivery state with its time', () => {
    render(<Receipts receipts={receipts('queued', 'fetched', 'delivered', 'started', 'completed')} />)
    const steps = screen.getAllByRole('listitem').map(({ textContent }) => textContent.split(' ')[0])
    expect(steps).toEqual(['Queued', 'Fetched', 'Delivered', 'Started', 'Done'])
    expect(document.querySelectorAll('time[datetime]')).toHaveLength(5)
  })

  it('allow cancelling until a worker has confirmed the message', async () => {
    const onCancel = vi.fn()
    const { rerender } = render(<Receipts receipts={receipts('queued', 'fetched')} onCancel={onCancel} />)
    await userEvent.click(screen.getByRole('button', { name: 'Cancel message' }))
    expect(onCancel).toHaveBeenCalledOnce()
    for (const last of ['undeliverable', 'delivered', 'completed', 'cancelled'] as const) {
      rerender(<Receipts receipts={receipts('queued', last)} onCancel={onCancel} />)
      expect(screen.queryByRole('button')).toBeNull()
    }
  })

  it('show that a message is being cancelled', () => {
    render(<Receipts receipts={receipts('queued')} onCancel={vi.fn()} cancelling />)
    expect(screen.getByRole('button', { name: 'Cancelling…' })).toHaveProperty('disabled', true)
  })

  it('render nothing without states', () => {
    const { container } = render(<Receipts receipts={[]} />)
    expect(container.textContent).toBe('')
  })
})
