import type { JsonObject } from '../api/contract'
import { number } from './read'

/** What an agent used. */
export interface Usage {
  readonly costUsd: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cacheReadTokens: number
  readonly cacheWriteTokens: number
}

export const noUsage: Usage = { costUsd: 0, inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 }

export function readUsage(data: JsonObject): Usage {
  return {
    costUsd: number(data, 'cost_usd') ?? 0,
    inputTokens: number(data, 'input_tokens') ?? 0,
    outputTokens: number(data, 'output_tokens') ?? 0,
    cacheReadTokens: number(data, 'cache_read_tokens') ?? 0,
    cacheWriteTokens: number(data, 'cache_write_tokens') ?? 0,
  }
}

export const summed = (one: Usage, other: Usage) => combined(one, other, (left, right) => left + right)

export const largest = (one: Usage, other: Usage) => combined(one, other, Math.max)

function combined(one: Usage, other: Usage, combine: (one: number, other: number) => number): Usage {
  return {
    costUsd: combine(one.costUsd, other.costUsd),
    inputTokens: combine(one.inputTokens, other.inputTokens),
    outputTokens: combine(one.outputTokens, other.outputTokens),
    cacheReadTokens: combine(one.cacheReadTokens, other.cacheReadTokens),
    cacheWriteTokens: combine(one.cacheWriteTokens, other.cacheWriteTokens),
  }
}
