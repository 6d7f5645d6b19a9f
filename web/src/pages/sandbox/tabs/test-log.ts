import type { JsonObject } from '../../../api/contract'
import { logEvent } from '../../../timeline/event'
import { fold } from '../../../timeline/fold'
import { advance, emptyRun } from '../../../timeline/run'
import type { Log } from './complete-run'

/** Type and data of an event, and the fields that were too large for a page. */
export type TestEvent = readonly [type: string, data: JsonObject, omitted?: string[]]

/** For tests: a completely loaded log of these events, a second apart. */
export function testLog(inputs: readonly TestEvent[], more: Partial<Log> = {}): Log {
  const events = inputs.map(([type, raw, omitted], index) =>
    logEvent({
      seq: index + 1,
      id: `e-${index + 1}`,
      type,
      raw,
      source: 'agent',
      at: new Date(1_700_000_000_000 + index * 1_000).toISOString(),
      body: omitted === undefined ? null : { size_bytes: 1_000_000, omitted },
    }),
  )
  return {
    events,
    timeline: fold(events),
    run: advance(emptyRun, events),
    first: 1,
    last: events.length,
    hasOlder: false,
    loadingOlder: false,
    olderError: null,
    complete: true,
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

/** A file edit by a tool. */
export function edited(path: string, diff: string, more: JsonObject = {}): TestEvent {
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

/** A command from its call to its completion. */
export function ran(id: string, command: string, output: string, failed = false): TestEvent[] {
  const about = { tool: 'Bash', tool_use_id: id, turn: 1 }
  return [
    ['agent.tool_use', { ...about, input: { command } }],
    [
      'agent.tool_completed',
      { ...about, tool_input: { command }, tool_response: output, is_error: failed, duration_ms: 12 },
    ],
  ]
}
