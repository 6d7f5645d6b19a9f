import type { JsonObject } from '../api/contract'
import { dollars, plural } from '../util/numbers'
import { base, type RowsBuilder, type RowPath } from './rows-builder'
import type { LogEvent } from './event'
import { firstText, flag, list, number, text } from './read'
import type { IterationRow, Tone } from './rows'

// Continuous mode: the task is repeated until it is done.

type LineText = { tone: Tone; text: string; detail: string | null }

export function iteration(builder: RowsBuilder, event: LogEvent): RowPath {
  return builder.add({ ...base(event), ...describe(event), kind: 'iteration' } satisfies IterationRow)
}

function describe(event: LogEvent): LineText {
  const { data } = event
  const name = `Iteration ${number(data, 'iteration_num') ?? '?'}`
  switch (event.type) {
    case 'continuous.started':
      return { tone: 'info', text: 'Continuous mode started', detail: firstText(data, 'goal') }
    case 'iteration.started':
      return { tone: 'info', text: `${name} started`, detail: firstText(data, 'prompt_preview') }
    case 'iteration.completed':
      return {
        tone: 'good',
        text: [`${name} completed`, costs(data, 'cost_usd')].filter(isPresent).join(': '),
        detail: firstText(data, 'output_preview'),
      }
    case 'iteration.failed':
      return { tone: 'bad', text: `${name} failed`, detail: firstText(data, 'error') }
    case 'iteration.completion_signal': {
      const [count, threshold] = [number(data, 'signal_count'), number(data, 'threshold')]
      const times = count === null || threshold === null ? null : `Signal ${count} of ${threshold}`
      return { tone: 'info', text: 'Agent signalled completion', detail: times }
    }
    case 'iteration.validation': {
      const passed = flag(data, 'passed')
      const errors = list(data, 'errors')
        .filter((each) => typeof each === 'string')
        .join('\n')
      const detail = firstText(data, 'feedback') ?? (errors === '' ? null : errors)
      return { tone: passed ? 'good' : 'warn', text: passed ? 'Checks passed' : 'Checks failed', detail }
    }
    default:
      return stopped(event)
  }
}

/** Stop reasons that mean success, including those of OmoiOS. */
const DONE = new Set(['completed', 'completion_signal', 'validation_passed', 'task_complete'])

function stopped({ data }: LogEvent): LineText {
  const reason = text(data, 'stop_reason')
  const isDone = reason !== null && DONE.has(reason)
  const rounds = number(data, 'successful_iterations') ?? number(data, 'iteration_num')
  const parts = [
    reason?.replaceAll('_', ' '),
    rounds === null ? null : plural(rounds, 'iteration'),
    costs(data, 'total_cost_usd'),
  ]
  return {
    tone: isDone ? 'good' : 'warn',
    text: isDone ? 'All iterations completed' : 'Stopped before completion',
    detail: parts.filter(isPresent).join(', ') || null,
  }
}

function costs(data: JsonObject, field: string): string | null {
  const usd = number(data, field)
  return usd === null ? null : dollars(usd)
}

function isPresent(part: string | null | undefined): part is string {
  return part !== null && part !== undefined
}
