// @vitest-environment happy-dom
import { cleanup, render, screen } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { useState } from 'react'
import { afterEach, expect, test, vi } from 'vitest'
import { Combobox, type ComboboxState } from './combobox'

afterEach(cleanup)

const OPTIONS: ComboboxState = {
  kind: 'loaded',
  options: [{ value: 'acme/shop' }, { value: '/home/', isStep: true }, { value: 'acme/docs', note: 'recent' }],
}

function Field({ state = OPTIONS }: { state?: ComboboxState }) {
  const [value, setValue] = useState('')
  const [isOpen, setOpen] = useState(false)
  return (
    <form onSubmit={(event) => event.preventDefault()}>
      <Combobox
        label="Repository"
        hint="owner/name"
        value={value}
        onChange={setValue}
        state={state}
        empty="Nothing found."
        isOpen={isOpen}
        onOpenChange={setOpen}
      />
      <button>After</button>
    </form>
  )
}

const field = () => screen.getByRole<HTMLInputElement>('combobox', { name: 'Repository' })
const marked = () => screen.queryByRole('option', { selected: true })?.textContent ?? null

test('arrow keys mark an option and Enter takes it', async () => {
  const user = userEvent.setup()
  render(<Field />)
  await user.tab()
  expect(screen.getAllByRole('option')).toHaveLength(3)
  expect(marked()).toBeNull()
  await user.keyboard('{ArrowUp}')
  expect(marked()).toContain('acme/docs')
  await user.keyboard('{ArrowDown}')
  expect(marked()).toContain('acme/shop')
  expect(field().getAttribute('aria-activedescendant')).toBe(screen.getByRole('option', { selected: true }).id)
  await user.keyboard('{Enter}')
  expect(field().value).toBe('acme/shop')
  expect(screen.queryByRole('listbox')).toBeNull()
})

test('an option that is a step keeps the list open', async () => {
  const user = userEvent.setup()
  render(<Field />)
  await user.click(field())
  await user.click(screen.getByRole('option', { name: '/home/' }))
  expect(field().value).toBe('/home/')
  expect(screen.getByRole('listbox')).not.toBeNull()
  expect(document.activeElement).toBe(field())
})

test('any text is kept, and Escape or leaving the field closes the list', async () => {
  const user = userEvent.setup()
  render(<Field />)
  await user.type(field(), 'other/thing{Escape}')
  expect(screen.queryByRole('listbox')).toBeNull()
  await user.keyboard('!')
  expect(screen.getByRole('listbox')).not.toBeNull()
  await user.tab()
  expect(screen.queryByRole('listbox')).toBeNull()
  expect(field().value).toBe('other/thing!')
})

test('loading, an empty list and an error are told apart', async () => {
  const user = userEvent.setup()
  const { rerender } = render(<Field state={{ kind: 'loading' }} />)
  await user.click(field())
  expect(screen.getByRole('status').textContent).toContain('Loading')
  rerender(<Field state={{ kind: 'loaded', options: [], footer: 'github: is unreachable.' }} />)
  expect(screen.getByRole('status').textContent).toBe('Nothing found.')
  expect(screen.getByText('github: is unreachable.')).not.toBeNull()
  const onRetry = vi.fn()
  rerender(<Field state={{ kind: 'failed', message: 'No permission.', onRetry }} />)
  expect(screen.getByRole('alert').textContent).toContain('No permission.')
  await user.click(screen.getByRole('button', { name: 'Try again' }))
  expect(onRetry).toHaveBeenCalledOnce()
})
