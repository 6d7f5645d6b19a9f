// @vitest-environment happy-dom
import { cleanup, render, screen } from '@testing-library/react'
import { afterEach, describe, expect, it } from 'vitest'
import { Markdown, isPlain } from './markdown'

afterEach(cleanup)

describe('Markdown', () => {
  it('renders Markdown', async () => {
    render(<Markdown text={'It is **done**:\n\n- one\n- two'} />)
    expect(await screen.findAllByRole('listitem')).toHaveLength(2)
    expect(screen.getByText('done').tagName).toBe('STRONG')
  })
  it('opens external links in a new tab without a referrer', async () => {
    render(<Markdown text="[the page](https://example.org/)" />)
    const link = await screen.findByRole('link', { name: 'the page' })
    expect(link.getAttribute('target')).toBe('_blank')
    expect(link.getAttribute('rel')).toBe('noreferrer')
  })
  it('does not link into the console', async () => {
    const here = `${location.origin}/?token=theirs`
    render(<Markdown text={`[app.ts](src/app.ts) [root](/sandboxes) [here](${here}) ![shot](shot.png) **end**`} />)
    await screen.findByText('end')
    expect(screen.queryAllByRole('link')).toEqual([])
    expect(screen.getByText('app.ts')).toBeTruthy()
  })
  it('runs no scripts and loads no images', async () => {
    const { container } = render(
      <Markdown
        text={
          'Then <script>alert(1)</script> ![a chart](https://example.org/chart.png) [no](javascript:alert(1)) `end`'
        }
      />,
    )
    expect((await screen.findByRole('link', { name: 'Image: a chart' })).getAttribute('href')).toBe(
      'https://example.org/chart.png',
    )
    expect(container.querySelector('script, img')).toBeNull()
    expect(container.textContent).toContain('<script>alert(1)</script>')
    expect(container.innerHTML).not.toContain('javascript:')
  })
  it('shows HTML tags as text', async () => {
    const { container } = render(<Markdown text={'<details>\nUse <Shell> and `x`.\n</details>'} />)
    await screen.findByText(/Shell/)
    expect(container.textContent).toBe('<details>\nUse <Shell> and `x`.\n</details>')
  })
})

describe('isPlain', () => {
  it.each(['I will begin with a file.', 'Done: 3 of 4 (see below)!', 'One line\nand another'])(
    'accepts %j as plain text',
    (text) => {
      expect(isPlain(text)).toBe(true)
    },
  )
  it.each([
    '- a list',
    '1. a list',
    'see https://example.org',
    '# Title',
    'a `b` c',
    'one\n\ntwo',
    '    code',
    'a | b',
    'Title\n===',
  ])('treats %j as Markdown', (text) => {
    expect(isPlain(text)).toBe(false)
  })
})
