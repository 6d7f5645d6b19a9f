import type { JsonObject } from '../../../api/contract'
import type { LogEvent } from '../../../timeline/event'
import { fold } from '../../../timeline/fold'
import { advance, begin } from '../../../timeline/run'
import type { Log } from './whole-run'

/** What happened, what is told of it, and which fields were too large for a page. */
export type Told = readonly [type: string, data: JsonObject, omitted?: string[]]

/** For tests: a log of these events, a second apart, as a page has it when all of it is loaded. */
export function testLog(told: readonly Told[], more: Partial<Log> = {}): Log {
  const events = told.map(([type, data, omitted], index): LogEvent => ({
    seq: index + 1,
    id: `e-${index + 1}`,
    type,
    data,
    source: 'agent',
    at: new Date(1_700_000_000_000 + index * 1_000).toISOString(),
    body: omitted === undefined ? null : { size_bytes: 1_000_000, omitted },
  }))
  return {
    events,
    timeline: fold(events),
    run: advance(begin, events),
    first: 1,
    last: events.length,
    hasOlder: false,
    loadingOlder: false,
    olderError: null,
    whole: true,
    progress: null,
    partial: null,
    heartbeatAt: null,
    connection: 'live',
    detail: null,
    state: 'ready',
    error: null,
    loadOlder: () => undefined,
    loadAll: () => undefined,
    retry: () => undefined,
    ...more,
  }
}

/** A file that a tool has changed. */
export function edited(path: string, diff: string, more: JsonObject = {}): Told {
  const lines = diff.split('\n')
  return [
    'agent.file_edited',
    {
      file_path: path,
      change_type: 'modified',
      lines_added: lines.filter((line) => line.startsWith('+')).length,
      lines_removed: lines.filter((line) => line.startsWith('-')).length,
      diff_preview: diff,
      full_diff: diff,
      full_diff_available: true,
      full_diff_size: diff.length,
      binary: false,
      ...more,
    },
  ]
}

/** A command from its call to its end. */
export function ran(id: string, command: string, output: string, failed = false): Told[] {
  const about = { tool: 'Bash', tool_use_id: id, turn: 1 }
  return [
    ['agent.tool_use', { ...about, input: { command } }],
    ['agent.tool_completed', { ...about, tool_input: { command }, tool_response: output, is_error: failed, duration_ms: 12 }],
  ]
}
