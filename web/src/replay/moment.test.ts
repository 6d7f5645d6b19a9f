import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../api/contract'
import { logEvent, type LogEvent } from '../timeline/event'
import { fold } from '../timeline/fold'
import { advance, emptyRun } from '../timeline/run'
import { momentAt } from './moment'

/** A random log of tool calls, edits, text, errors and turns. Deterministic for a seed. */
function log(length: number, seed: number): LogEvent[] {
  let state = seed
  const random = (of: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return (state >>> 8) % of
  }
  return Array.from({ length }, (_, index) => {
    const [type, raw] = event(index, random)
    return logEvent({
      seq: index + 1,
      id: `e-${index + 1}`,
      type,
      raw,
      source: 'agent',
      at: new Date(1_700_000_000_000 + index * 250).toISOString(),
      body: null,
    })
  })
}

function event(index: number, random: (of: number) => number): [string, JsonObject] {
  const turn = Math.floor(index / 20) + 1
  const earlier = `tool-${Math.max(0, index - 1 - random(5))}`
  switch (random(8)) {
    case 0:
      return [
        'agent.tool_use',
        { turn, tool: 'Bash', tool_use_id: `tool-${index}`, input: { command: `make ${random(9)}` } },
      ]
    case 1:
      return [
        'agent.tool_completed',
        {
          turn,
          tool: 'Bash',
          tool_use_id: earlier,
          tool_input: { command: 'make' },
          tool_response: 'ok',
          is_error: random(3) === 0,
        },
      ]
    case 2:
      return [
        'agent.file_edited',
        {
          turn,
          tool_use_id: earlier,
          file_path: `src/${random(12)}.ts`,
          change_type: 'modified',
          lines_added: 1,
          lines_removed: 1,
          diff_preview: '@@ -1 +1 @@\n-a\n+b\n',
          full_diff: '@@ -1 +1 @@\n-a\n+b\n',
          full_diff_available: true,
          full_diff_size: 20,
          binary: false,
        },
      ]
    case 3:
      return [
        'agent.turn_completed',
        { turn, success: true, cost_usd: 0.01, total_cost_usd: 0.01 * turn, input_tokens: 10, output_tokens: 5 },
      ]
    case 4:
      return ['agent.error', { error: `trouble ${index}` }]
    case 5:
      return [
        'message.queued',
        { message_id: `m-${index}`, message_type: 'user_message', content: 'Go on', sender: { kind: 'user', id: 'u' } },
      ]
    default:
      return ['agent.message', { turn, content: `Word ${index}` }]
  }
}

function check(events: readonly LogEvent[], length: number) {
  const prefix = events.slice(0, length)
  const moment = momentAt(events, length)
  expect(moment.length).toBe(length)
  expect(moment.timeline.rows).toEqual(fold(prefix).rows)
  expect(moment.run).toEqual(advance(emptyRun, prefix))
}

describe('a moment of a run', () => {
  it('equals the folded prefix of the log, in any order of access', () => {
    fc.assert(
      fc.property(fc.nat(), fc.array(fc.nat({ max: 1_500 }), { minLength: 1, maxLength: 6 }), (seed, lengths) => {
        const events = log(1_500, seed)
        for (const length of lengths) check(events, length)
      }),
      { numRuns: 15 },
    )
  }, 30_000)

  it('is correct while the log grows', () => {
    const events = log(1_300, 7)
    const young = events.slice(0, 1_050)
    check(young, 1_050)
    check(events, 1_300)
    check(events, 990)
    check(young, 1_050)
  })

  it('is empty at the beginning and clamped to the ends', () => {
    const events = log(5, 1)
    expect(momentAt(events, 0).timeline.rows).toEqual([])
    expect(momentAt(events, -3).length).toBe(0)
    expect(momentAt(events, 99).length).toBe(5)
    expect(momentAt([], 4).length).toBe(0)
  })

  it('is computed within a frame anywhere in fifty thousand events', () => {
    const events = log(50_000, 3)
    momentAt(events, events.length)
    const durations = Array.from({ length: 100 }, (_, step) => {
      // CPU time, because other tests run at the same time.
      const start = process.cpuUsage()
      momentAt(events, (step * 7_919) % 50_000)
      const { user, system } = process.cpuUsage(start)
      return (user + system) / 1_000
    }).sort((left, right) => left - right)
    expect(durations[50]).toBeLessThan(16)
  }, 60_000)
})
