import fc from 'fast-check'
import { expect, it, vi } from 'vitest'
import type { LogEvent } from './event'
import { completion, edit, log, text, call } from './fixtures'
import { empty, extend, fold, rowsOfEvents, type Timeline } from './fold'
import { randomLogs } from './random-logs'
import type { Row } from './rows'
import { advance, emptyRun, type Run } from './run'

vi.setConfig({ testTimeout: 60_000 })

/** The same events in batches that overlap. */
function batches(events: readonly LogEvent[], cuts: readonly number[]): LogEvent[][] {
  const result: LogEvent[][] = []
  for (let from = 0, number = 0; from < events.length; number++) {
    const cut = cuts[number % cuts.length] ?? 1
    const overlapStart = Math.max(0, from - (cut % 3))
    result.push(events.slice(overlapStart, from + cut))
    from += cut
  }
  return result
}

const cuts = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 8 })
const facts = ({ foldState, ...rest }: Run) => ({ ...rest, known: foldState.planned.length })

it('rows do not depend on batching or duplicates', () => {
  fc.assert(
    fc.property(randomLogs(), cuts, (events, cut) => {
      const full = fold(events)
      const grown = batches(events, cut).reduce<Timeline>(extend, empty)
      expect(grown.rows).toEqual(full.rows)
      expect(grown.last).toBe(full.last)
    }),
    { numRuns: 400 },
  )
})

it('rows do not depend on the order of events', () => {
  fc.assert(
    fc.property(
      randomLogs().chain((events) =>
        fc.tuple(fc.constant(events), fc.shuffledSubarray([...events, ...events], { minLength: events.length * 2 })),
      ),
      ([events, shuffled]) => {
        expect(fold(shuffled).rows).toEqual(fold(events).rows)
      },
    ),
    { numRuns: 200 },
  )
})

it('extending a timeline does not modify it', () => {
  fc.assert(
    fc.property(randomLogs(), fc.nat(60), (events, at) => {
      const half = fold(events.slice(0, at))
      const before = structuredClone(half.rows)
      extend(half, events)
      expect(half.rows).toEqual(before)
      expect(extend(half, events).rows).toEqual(fold(events).rows)
    }),
    { numRuns: 200 },
  )
})

it('a reused row object is unchanged', () => {
  fc.assert(
    fc.property(randomLogs(), fc.nat(60), (events, at) => {
      const half = fold(events.slice(0, at))
      for (const [index, row] of extend(half, events).rows.entries()) {
        if (row === half.rows[index]) expect(row.lastSeq).toBeLessThanOrEqual(half.last)
      }
    }),
  )
})

it('every event is in exactly one row or of a hidden type', () => {
  fc.assert(
    fc.property(randomLogs(), (events) => {
      const keys = new Set<string>()
      const collect = (row: Row) => {
        expect(keys.has(row.key), `two rows have the key ${row.key}`).toBe(false)
        keys.add(row.key)
        if (row.kind === 'subagent') row.steps.forEach(collect)
      }
      fold(events).rows.forEach(collect)
      const rowKeys = rowsOfEvents(events)
      for (const event of events) {
        const key = rowKeys.get(event.seq)
        if (isHidden(event)) expect(key, event.type).toBeNull()
        else expect(keys.has(key ?? ''), `${event.type} is in ${String(key)}`).toBe(true)
      }
    }),
    { numRuns: 400 },
  )
})

function isHidden({ type, raw }: LogEvent): boolean {
  if (type === 'agent.heartbeat' || type === 'agent.partial') return true
  if (type === 'agent.assistant_message') return typeof raw['content'] !== 'string' || raw['content'].trim() === ''
  return type === 'agent.system_message' && raw['subtype'] === 'task_updated'
}

it('run facts do not depend on batching or duplicates', () => {
  fc.assert(
    fc.property(randomLogs(), cuts, (events, cut) => {
      expect(facts(batches(events, cut).reduce<Run>(advance, emptyRun))).toEqual(facts(advance(emptyRun, events)))
    }),
    { numRuns: 300 },
  )
})

it('folds fifty thousand events, and a hundred more, within their time limits', () => {
  const command = (number: number) => ({ command: `cargo test ${number}` })
  const inputs = Array.from({ length: 10_020 }, (_, number) => [
    text(`step ${number}`),
    call(`t-${number}`, 'Bash', command(number)),
    completion(`t-${number}`, 'Bash', command(number), 'ok'.repeat(50)),
    edit(`src/${number % 300}.rs`, `t-${number}`),
    text('done'),
  ]).flat()
  const events = log(...inputs)
  const [initial, more] = [events.slice(0, 50_000), events.slice(50_000)]
  const timeline = fastest(3, 900, () => fold(initial))
  fastest(5, 25, () => extend(timeline, more))
  const run = fastest(3, 600, () => advance(emptyRun, initial))
  fastest(5, 25, () => advance(run, more))
  expect(timeline.rows).toHaveLength(30_000)
  expect(run.counts.events).toBe(50_000)
})

it('folds fifty thousand steps of one sub-agent within its time limit', () => {
  const events = log(...Array.from({ length: 50_000 }, (_, number) => text(`step ${number}`, 'a')))
  expect(fastest(2, 900, () => fold(events)).rows).toHaveLength(1)
})

/**
 * Runs `work` several times, checks the fastest run against a limit, and returns its result. Measures CPU time because
 * other processes may be running. The limits are several times the usual duration.
 */
function fastest<Result>(attempts: number, maxMs: number, work: () => Result): Result {
  let result = work()
  let best = Infinity
  for (let index = 0; index < attempts; index++) {
    const start = process.cpuUsage()
    result = work()
    best = Math.min(best, process.cpuUsage(start).user / 1000)
  }
  if (process.env['TIMINGS'] !== undefined) console.info(`${best.toFixed(1)} ms of ${maxMs}`)
  expect(best).toBeLessThan(maxMs)
  return result
}
