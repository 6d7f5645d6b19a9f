import { afterEach, describe, expect, it, vi } from 'vitest'
import { type Progress, readFullLog } from './full-log'

/** Serves `events` events in pages of `limit`. Every third page is empty, which the API allows. */
function plane(events: number, limit: number) {
  let pages = 0
  vi.stubGlobal('fetch', (path: string) => {
    const after = Number(new URL(path, 'http://plane').searchParams.get('after_seq'))
    pages += 1
    const size = pages % 3 === 0 ? 0 : Math.min(limit, events - after)
    const page = Array.from({ length: size }, (_, index) => ({
      id: `e-${after + index + 1}`,
      seq: after + index + 1,
      sandbox_id: 's',
      event_type: 'agent.message',
      event_data: {},
      source: 'agent',
      created_at: '2026-01-01T00:00:00Z',
      emitted_at: null,
    }))
    const next = after + size
    return Promise.resolve(
      Response.json({
        sandbox_id: 's',
        events: page,
        total_count: events,
        last_seq: events,
        has_more: next < events,
        next_after_seq: next,
        next_before_seq: null,
      }),
    )
  })
}

afterEach(() => vi.unstubAllGlobals())

describe('reading a complete log', () => {
  it('reads every event once across empty pages and reports progress', async () => {
    plane(1_234, 500)
    const reports: Progress[] = []
    const events = await readFullLog('s', [], (progress) => reports.push(progress))
    expect(events.map((event) => event.seq)).toEqual(Array.from({ length: 1_234 }, (_, index) => index + 1))
    expect(reports[0]).toEqual({ loaded: 500, of: 1_234 })
    expect(reports.at(-1)).toEqual({ loaded: 1_234, of: 1_234 })
  })

  it('continues after the known events and returns the same list if none is new', async () => {
    plane(10, 4)
    const complete = await readFullLog('s', [], () => undefined)
    plane(12, 4)
    const longer = await readFullLog('s', complete, () => undefined)
    expect(longer.map((event) => event.seq)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    expect(longer.slice(0, 10)).toEqual(complete)
    plane(12, 4)
    expect(await readFullLog('s', longer, () => undefined)).toBe(longer)
  })
})
