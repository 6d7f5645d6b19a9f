import fc from 'fast-check'
import { expect, it, vi } from 'vitest'
import type { LogEvent } from './event'
import { completion, edit, log, text, call } from './fixtures'
import { empty, extend, fold, rowsOfEvents, type Timeline } from './fold'
import { histories } from './random-logs'
import type { Row } from './rows'
import { advance, begin, type Run } from './run'

vi.setConfig({ testTimeout: 60_000 })

/** The same events in batches, with what was there before sent again. */
function batches(events: readonly LogEvent[], cuts: readonly number[]): LogEvent[][] {
  const result: LogEvent[][] = []
  for (let from = 0, number = 0; from < events.length; number++) {
    const cut = cuts[number % cuts.length] ?? 1
    const again = Math.max(0, from - (cut % 3))
    result.push(events.slice(again, from + cut))
    from += cut
  }
  return result
}

const cuts = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 8 })
const facts = ({ memory, ...rest }: Run) => ({ ...rest, known: memory.planned.length })

it('any batches and any duplicates give the same rows', () => {
  fc.assert(
    fc.property(histories(), cuts, (events, cut) => {
      const whole = fold(events)
      const grown = batches(events, cut).reduce<Timeline>(extend, empty)
      expect(grown.rows).toEqual(whole.rows)
      expect(grown.last).toBe(whole.last)
    }),
    { numRuns: 400 },
  )
})

it('any order gives the same rows', () => {
  fc.assert(
    fc.property(
      histories().chain((events) => fc.tuple(fc.constant(events), fc.shuffledSubarray([...events, ...events], { minLength: events.length * 2 }))),
      ([events, shuffled]) => {
        expect(fold(shuffled).rows).toEqual(fold(events).rows)
      },
    ),
    { numRuns: 200 },
  )
})

it('a timeline that was extended is still what it was', () => {
  fc.assert(
    fc.property(histories(), fc.nat(60), (events, at) => {
      const half = fold(events.slice(0, at))
      const before = structuredClone(half.rows)
      extend(half, events)
      expect(half.rows).toEqual(before)
      expect(extend(half, events).rows).toEqual(fold(events).rows)
    }),
    { numRuns: 200 },
  )
})

it('the same row object means that nothing happened to it', () => {
  fc.assert(
    fc.property(histories(), fc.nat(60), (events, at) => {
      const half = fold(events.slice(0, at))
      for (const [index, row] of extend(half, events).rows.entries()) {
        if (row === half.rows[index]) expect(row.lastSeq).toBeLessThanOrEqual(half.last)
      }
    }),
  )
})

it('every event is in exactly one row, or among those that are never shown', () => {
  fc.assert(
    fc.property(histories(), (events) => {
      const keys = new Set<string>()
      const collect = (row: Row) => {
        expect(keys.has(row.key), `two rows are called ${row.key}`).toBe(false)
        keys.add(row.key)
        if (row.kind === 'subagent') row.steps.forEach(collect)
      }
      fold(events).rows.forEach(collect)
      const places = rowsOfEvents(events)
      for (const event of events) {
        const key = places.get(event.seq)
        if (isNeverShown(event)) expect(key, event.type).toBeNull()
        else expect(keys.has(key ?? ''), `${event.type} is in ${String(key)}`).toBe(true)
      }
    }),
    { numRuns: 400 },
  )
})

function isNeverShown({ type, data }: LogEvent): boolean {
  if (type === 'agent.heartbeat' || type === 'agent.partial') return true
  if (type === 'agent.assistant_message') return typeof data['content'] !== 'string' || data['content'].trim() === ''
  return type === 'agent.system_message' && data['subtype'] === 'task_updated'
}

it('any batches and any duplicates give the same facts', () => {
  fc.assert(
    fc.property(histories(), cuts, (events, cut) => {
      expect(facts(batches(events, cut).reduce<Run>(advance, begin))).toEqual(facts(advance(begin, events)))
    }),
    { numRuns: 300 },
  )
})

it('fifty thousand events are folded at once, and a hundred more in no time', () => {
  const command = (number: number) => ({ command: `cargo test ${number}` })
  const happened = Array.from({ length: 10_020 }, (_, number) => [text(`step ${number}`), call(`t-${number}`, 'Bash', command(number)), completion(`t-${number}`, 'Bash', command(number), 'ok'.repeat(50)), edit(`src/${number % 300}.rs`, `t-${number}`), text('done')]).flat()
  const events = log(...happened)
  const [most, more] = [events.slice(0, 50_000), events.slice(50_000)]
  const timeline = quickest(3, 900, () => fold(most))
  quickest(5, 25, () => extend(timeline, more))
  const run = quickest(3, 600, () => advance(begin, most))
  quickest(5, 25, () => advance(run, more))
  expect(timeline.rows).toHaveLength(30_000)
  expect(run.counts.events).toBe(50_000)
})

it('fifty thousand steps of one sub-agent are folded at once', () => {
  const events = log(...Array.from({ length: 50_000 }, (_, number) => text(`step ${number}`, 'a')))
  expect(quickest(2, 900, () => fold(events)).rows).toHaveLength(1)
})

/**
 * What it gives, if the quickest of some tries is quick enough. Counted is the processor's time: others may be at work on
 * the same machine. The bounds are several times what it takes.
 */
function quickest<Result>(tries: number, mostMs: number, work: () => Result): Result {
  let result = work()
  let best = Infinity
  for (let index = 0; index < tries; index++) {
    const begun = process.cpuUsage()
    result = work()
    best = Math.min(best, process.cpuUsage(begun).user / 1000)
  }
  if (process.env['TIMINGS'] !== undefined) console.info(`${best.toFixed(1)} ms of ${mostMs}`)
  expect(best).toBeLessThan(mostMs)
  return result
}
