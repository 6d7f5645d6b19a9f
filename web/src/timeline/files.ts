import type { LogEvent } from './event'
import { firstText, flag, isOmitted, number, text } from './read'
import type { FileChange } from './rows'

/** A file's change, from `agent.file_edited`. */
export function readChange(event: LogEvent): FileChange {
  const { data } = event
  const whole = text(data, 'full_diff')
  return {
    seq: event.seq,
    at: event.at,
    path: firstText(data, 'file_path', 'path') ?? '',
    previousPath: firstText(data, 'previous_path'),
    change: kindOf(text(data, 'change_type')),
    added: number(data, 'lines_added') ?? 0,
    removed: number(data, 'lines_removed') ?? 0,
    diff: whole ?? text(data, 'diff_preview') ?? '',
    whole: whole !== null,
    fullAvailable: whole !== null || isOmitted(event, 'full_diff'),
    binary: flag(data, 'binary'),
    toolUseId: firstText(data, 'tool_use_id'),
  }
}

function kindOf(told: string | null): FileChange['change'] {
  return told === 'created' || told === 'deleted' || told === 'renamed' ? told : 'modified'
}
