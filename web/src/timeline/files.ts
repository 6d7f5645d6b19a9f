import type { LogEvent } from './event'
import { firstText, flag, isOmitted, number, text } from './read'
import type { FileChange } from './rows'

/** Parses `agent.file_edited`. */
export function readChange(event: LogEvent<'agent.file_edited'>): FileChange {
  const { data } = event
  const fullDiff = text(data, 'full_diff')
  return {
    seq: event.seq,
    at: event.at,
    path: firstText(data, 'file_path') ?? '',
    previousPath: firstText(data, 'previous_path'),
    change: kindOf(text(data, 'change_type')),
    added: number(data, 'lines_added') ?? 0,
    removed: number(data, 'lines_removed') ?? 0,
    diff: fullDiff ?? text(data, 'diff_preview') ?? '',
    complete: fullDiff !== null,
    fullAvailable: fullDiff !== null || isOmitted(event, 'full_diff'),
    binary: flag(data, 'binary'),
    toolUseId: firstText(data, 'tool_use_id'),
  }
}

function kindOf(value: string | null): FileChange['change'] {
  return value === 'created' || value === 'deleted' || value === 'renamed' ? value : 'modified'
}
