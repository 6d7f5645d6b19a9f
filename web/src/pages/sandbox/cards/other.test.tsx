// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { cleanup, fireEvent, render, screen } from '@testing-library/react'
import fc from 'fast-check'
import { afterEach, expect, it, vi } from 'vitest'
import type { JsonObject } from '../../../api/contract'
import { logEvent } from '../../../timeline/event'
import { fold } from '../../../timeline/fold'
import { RowCard } from './row-card'

// Computing roles is slow in happy-dom, and the test machine may be busy.
vi.setConfig({ testTimeout: 60_000 })
afterEach(cleanup)

/** The card of an event, instead of the previous one. */
function show(type: string, raw: JsonObject) {
  const event = logEvent({ seq: 1, id: 'e', type, raw, source: 'agent', at: '2026-01-02T03:04:05.000000Z', body: null })
  cleanup()
  return render(
    <QueryClientProvider client={new QueryClient()}>
      {fold([event]).rows.map((row) => (
        <RowCard key={row.key} row={row} sandboxId="s-1" />
      ))}
    </QueryClientProvider>,
  )
}

const types = fc.string().map((name) => `newer.${name}`)
const values = [fc.string(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean(), fc.constant(null)]
const data = fc.object({ maxDepth: 2, values }).filter((fields) => Object.keys(fields).length > 0)

it('an event of an unknown type is shown as the data that was sent', () => {
  fc.assert(
    fc.property(types, data, (type, object) => {
      const raw = object as JsonObject
      const { container } = show(type, raw)
      const title = screen.getByRole('button', { name: /^Event/ })
      expect(title.textContent).toBe(`Event${type}`)
      fireEvent.click(title)
      const rest = screen.queryByRole('button', { name: /^Show all/ })
      if (rest !== null) fireEvent.click(rest)
      expect(container.querySelector('pre')?.textContent).toBe(JSON.stringify(raw, null, 2))
    }),
    { numRuns: 50 },
  )
})
