// @vitest-environment happy-dom
import { cleanup, fireEvent, render, screen } from '@testing-library/react'
import { afterEach, describe, expect, it } from 'vitest'
import { Diff } from './diff'

afterEach(cleanup)

const edit = '--- a/notes.md\n+++ b/notes.md\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n'

describe('Diff', () => {
  it('shows numbered lines without the file header', async () => {
    render(<Diff diff={edit} />)
    const table = await screen.findByRole('table')
    const rows = [...table.querySelectorAll('tr')].map((row) =>
      [...row.querySelectorAll('td')].map((cell) => cell.textContent),
    )
    expect(rows).toEqual([
      ['1', '1', 'one'],
      ['2', '', 'two'],
      ['', '2', '2'],
      ['3', '3', 'three'],
    ])
  })
  it('shows the first lines and expands to all', async () => {
    const lines = Array.from({ length: 40 }, (_, index) => `+line ${index + 1}`).join('\n')
    render(<Diff diff={`--- /dev/null\n+++ b/a\n@@ -0,0 +1,40 @@\n${lines}\n`} />)
    await screen.findByText('line 24')
    expect(screen.queryByText('line 25')).toBeNull()
    fireEvent.click(screen.getByRole('button', { name: 'Show all (16 more lines)' }))
    expect(await screen.findByText('line 40')).toBeTruthy()
    fireEvent.click(screen.getByRole('button', { name: 'Show less' }))
    expect(screen.queryByText('line 40')).toBeNull()
  })
  it('explains why there is no diff', () => {
    render(<Diff diff="" binary />)
    expect(screen.getByText('Binary file. Contents are not shown.')).toBeTruthy()
    cleanup()
    render(<Diff diff={'\n'} />)
    expect(screen.getByText('No lines changed.')).toBeTruthy()
  })
  it('shows an invalid diff as plain text', async () => {
    render(<Diff diff={'@@ nonsense\n\\ what is this'} />)
    await new Promise((done) => setTimeout(done, 0))
    expect(screen.getByText(/what is this/).tagName).toBe('PRE')
    expect(screen.queryByRole('table')).toBeNull()
  })
})
