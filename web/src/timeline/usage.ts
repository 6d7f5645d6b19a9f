import type { EventData } from './event'
import { number } from './read'

type UsageEventType = 'agent.turn_completed' | 'agent.turn_complete' | 'agent.completed' | 'agent.failed'

export interface Usage {
  readonly costUsd: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cacheReadTokens: number
  readonly cacheWriteTokens: number
}

export const noUsage: Usage = { costUsd: 0, inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 }

/** Cost and tokens of a turn, or of the run in a final report. */
export function readUsage(data: EventData<UsageEventType>): Usage {
  return {
    costUsd: number(data, 'cost_usd') ?? 0,
    inputTokens: number(data, 'input_tokens') ?? 0,
    outputTokens: number(data, 'output_tokens') ?? 0,
    cacheReadTokens: number(data, 'cache_read_tokens') ?? 0,
    cacheWriteTokens: number(data, 'cache_write_tokens') ?? 0,
  }
}

export const summed = (left: Usage, right: Usage) => combined(left, right, (a, b) => a + b)

export const largest = (left: Usage, right: Usage) => combined(left, right, Math.max)

function combined(left: Usage, right: Usage, combine: (left: number, right: number) => number): Usage {
  return {
    costUsd: combine(left.costUsd, right.costUsd),
    inputTokens: combine(left.inputTokens, right.inputTokens),
    outputTokens: combine(left.outputTokens, right.outputTokens),
    cacheReadTokens: combine(left.cacheReadTokens, right.cacheReadTokens),
    cacheWriteTokens: combine(left.cacheWriteTokens, right.cacheWriteTokens),
  }
}
