import type { WorkerEvent } from './api'

// Events in the format of the worker (docs/worker.md).

let calls = 0

const nextCall = () => `toolu_${String((calls += 1)).padStart(6, '0')}`

export const started = (): WorkerEvent => ({
  event_type: 'agent.started',
  source: 'worker',
  event_data: { sdk: 'scripted', model: 'scripted', session_id: 'session-1', task: 'Do something' },
})

export const isolation = (tier: string, notCovered: string[]): WorkerEvent => ({
  event_type: 'worker.isolation',
  source: 'worker',
  event_data: { tier, not_covered: notCovered },
})

export const text = (content: string, turn = 1): WorkerEvent => ({
  event_type: 'agent.message',
  event_data: { content, content_length: content.length, turn },
})

export const thinking = (content: string, turn = 1): WorkerEvent => ({
  event_type: 'agent.thinking',
  event_data: { content, turn },
})

export const failed = (error: string): WorkerEvent => ({
  event_type: 'agent.error',
  event_data: { error, turn: 1 },
})

/** A command: call and completion. */
export function command(line: string, output: string, exit = 0, turn = 1): WorkerEvent[] {
  const tool_use_id = nextCall()
  const input = { command: line, description: 'A command of a test' }
  return [
    { event_type: 'agent.tool_use', event_data: { tool: 'Bash', tool_input: input, tool_use_id, turn } },
    {
      event_type: 'agent.tool_completed',
      event_data: {
        ...{ tool: 'Bash', tool_input: input, tool_use_id, turn, duration_ms: 12, is_error: exit !== 0 },
        tool_response: exit === 0 ? output : `Exit code ${exit}\n${output}`,
      },
    },
  ]
}

/** A file written by a tool: call, completion and file change. */
export function written(path: string, lines: readonly string[], turn = 1): WorkerEvent[] {
  const tool_use_id = nextCall()
  const input = { file_path: path, content: `${lines.join('\n')}\n` }
  return [
    { event_type: 'agent.tool_use', event_data: { tool: 'Write', tool_input: input, tool_use_id, turn } },
    {
      event_type: 'agent.tool_completed',
      event_data: {
        ...{ tool: 'Write', tool_input: input, tool_use_id, turn, duration_ms: 3, is_error: false },
        tool_response: `File created successfully at: ${path}`,
      },
    },
    created(path, lines, tool_use_id, turn),
  ]
}

function created(path: string, lines: readonly string[], tool_use_id: string, turn: number): WorkerEvent {
  const header = ['--- /dev/null', `+++ b/${path}`, `@@ -0,0 +1,${lines.length} @@`]
  const diff = [...header, ...lines.map((line) => `+${line}`)].join('\n') + '\n'
  return {
    event_type: 'agent.file_edited',
    event_data: {
      ...{ turn, tool_use_id, file_path: path, change_type: 'created', lines_added: lines.length, lines_removed: 0 },
      ...{
        diff_preview: diff.slice(0, 5_000),
        full_diff: diff,
        full_diff_available: true,
        full_diff_size: diff.length,
      },
    },
  }
}

export const turnCompleted = (turn: number, cost_usd: number): WorkerEvent => ({
  event_type: 'agent.turn_completed',
  event_data: {
    ...{ turn, turns: turn, success: true, interrupted: false, subtype: 'success', stop_reason: 'end_turn' },
    ...{ cost_usd, total_cost_usd: cost_usd, duration_ms: 1_500 },
    ...{ input_tokens: 1_200, output_tokens: 340, cache_read_tokens: 0, cache_write_tokens: 0 },
  },
})

export const preview = (
  status: 'starting' | 'ready' | 'failed' | 'stopped',
  url: string | null,
  port = 3000,
): WorkerEvent => ({
  event_type: `preview.${status}`,
  source: 'worker',
  event_data: { port, framework: 'vite', ...(url === null ? {} : { url }) },
})
