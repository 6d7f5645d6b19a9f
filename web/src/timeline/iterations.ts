import { dollars, plural } from '../util/numbers'
import { base, type RowsBuilder, type RowPath } from './rows-builder'
import type { LogEvent } from './event'
import { firstText, flag, list, number, someNumber, text } from './read'
import type { IterationRow, Tone } from './rows'

// Continuous mode: the task is repeated until it is done.

type LineText = { tone: Tone; text: string; detail: string | null }

type IterationEvent = LogEvent<'continuous.started' | NumberedEventType>

/** Event types with the number of the iteration. */
type NumberedEventType =
  | 'continuous.completed'
  | 'iteration.started'
  | 'iteration.completed'
  | 'iteration.failed'
  | 'iteration.completion_signal'
  | 'iteration.validation'

export function iteration(builder: RowsBuilder, event: IterationEvent): RowPath {
  return builder.add({ ...base(event), ...describe(event), kind: 'iteration' } satisfies IterationRow)
}

function describe(event: IterationEvent): LineText {
  const name = `Iteration ${someNumber<NumberedEventType>(event.data, 'iteration_num') ?? '?'}`
  switch (event.type) {
    case 'continuous.started':
      return { tone: 'info', text: 'Continuous mode started', detail: firstText(event.data, 'goal') }
    case 'iteration.started':
      return { tone: 'info', text: `${name} started`, detail: firstText(event.data, 'prompt_preview') }
    case 'iteration.completed':
      return {
        tone: 'good',
        text: [`${name} completed`, costs(number(event.data, 'cost_usd'))].filter(isPresent).join(': '),
        detail: firstText(event.data, 'output_preview'),
      }
    case 'iteration.failed':
      return { tone: 'bad', text: `${name} failed`, detail: firstText(event.data, 'error') }
    case 'iteration.completion_signal': {
      const [count, threshold] = [number(event.data, 'signal_count'), number(event.data, 'threshold')]
      const times = count === null || threshold === null ? null : `Signal ${count} of ${threshold}`
      return { tone: 'info', text: 'Agent signalled completion', detail: times }
    }
    case 'iteration.validation': {
      const passed = flag(event.data, 'passed')
      const errors = list(event.data, 'errors')
        .filter((each) => typeof each === 'string')
        .join('\n')
      const detail = firstText(event.data, 'feedback') ?? (errors === '' ? null : errors)
      return { tone: passed ? 'good' : 'warn', text: passed ? 'Checks passed' : 'Checks failed', detail }
    }
    case 'continuous.completed':
      return stopped(event)
  }
}

/** Stop reasons that mean success, including those of OmoiOS. */
const DONE = new Set(['completed', 'completion_signal', 'validation_passed', 'task_complete'])

function stopped({ data }: LogEvent<'continuous.completed'>): LineText {
  const reason = text(data, 'stop_reason')
  const isDone = reason !== null && DONE.has(reason)
  const rounds = number(data, 'successful_iterations') ?? number(data, 'iteration_num')
  const parts = [
    reason?.replaceAll('_', ' '),
    rounds === null ? null : plural(rounds, 'iteration'),
    costs(number(data, 'total_cost_usd')),
  ]
  return {
    tone: isDone ? 'good' : 'warn',
    text: isDone ? 'All iterations completed' : 'Stopped before completion',
    detail: parts.filter(isPresent).join(', ') || null,
  }
}

function costs(usd: number | null): string | null {
  return usd === null ? null : dollars(usd)
}

function isPresent(part: string | null | undefined): part is string {
  return part !== null && part !== undefined
}
