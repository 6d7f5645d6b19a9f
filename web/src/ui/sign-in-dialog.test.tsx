// @vitest-environment happy-dom
import { cleanup, render, screen } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { signIn, token } from '../api/auth'
import { closeSignInLink, openSignInLink } from '../api/sign-in-link'
import { SignInDialog } from './sign-in-dialog'

let requests = 0
beforeEach(() => {
  requests = 0
  signIn('mine')
  vi.stubGlobal('fetch', () => {
    requests += 1
    return Promise.resolve(new Response(JSON.stringify({ token: 'sit_new', expires_at: '' })))
  })
})
afterEach(() => {
  cleanup()
  closeSignInLink()
  vi.unstubAllGlobals()
})

function open(pathAndFragment: string) {
  history.replaceState(null, '', pathAndFragment)
  openSignInLink()
  render(<SignInDialog />)
}

it('asks before a link replaces the stored token, and keeps it by default', async () => {
  open('/#code=fresh')
  expect(screen.getByRole('alertdialog', { name: 'Replace the current sign-in?' })).toBeTruthy()
  expect(document.activeElement?.textContent).toBe('Keep current sign-in')
  await userEvent.keyboard('{Enter}')
  expect(screen.queryByRole('alertdialog')).toBeNull()
  expect([token(), requests]).toEqual(['mine', 0])
})

it('replaces the stored token after a confirmation', async () => {
  open('/#code=fresh')
  await userEvent.click(screen.getByRole('button', { name: 'Replace' }))
  await vi.waitFor(() => expect(token()).toBe('sit_new'))
  expect([screen.queryByRole('alertdialog'), requests]).toEqual([null, 1])
})

it('explains that a token in a link does not sign in', async () => {
  open('/?token=theirs')
  expect(screen.getByRole('alertdialog', { name: 'This link does not sign in' }).textContent).toContain('sunaba link')
  await userEvent.click(screen.getByRole('button', { name: 'Close' }))
  expect([screen.queryByRole('alertdialog'), token()]).toEqual([null, 'mine'])
})
