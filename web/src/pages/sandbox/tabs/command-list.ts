import type { Command } from '../../../timeline/run'

/** A command with the lines of its output that match the search. */
export interface ShownCommand {
  readonly command: Command
  /** `null` without a search: the full output is shown. */
  readonly found: FoundLines | null
}

export interface FoundLines {
  readonly lines: readonly { readonly number: number; readonly text: string }[]
  /** Further lines that are not listed. */
  readonly more: number
}

const MAX_FOUND_LINES = 20

/** The commands whose text or output contains the search, in order. Ignores case and colours. */
export function commandList(
  commands: readonly Command[],
  search: string,
  onlyFailed: boolean,
  plain: (output: string) => string,
): ShownCommand[] {
  const wanted = search.trim().toLowerCase()
  const shown: ShownCommand[] = []
  for (const command of commands) {
    if (onlyFailed && !hasFailed(command)) continue
    if (wanted === '') {
      shown.push({ command, found: null })
      continue
    }
    const found = linesWith(plain(command.output ?? ''), wanted)
    if (found.lines.length > 0 || `${command.command}\n${command.description ?? ''}`.toLowerCase().includes(wanted)) {
      shown.push({ command, found })
    }
  }
  return shown
}

export const hasFailed = (command: Command) => outcomeOf(command).kind === 'failed'

export interface CommandOutcome {
  readonly kind: 'running' | 'done' | 'failed' | 'interrupted'
  readonly label: string
}

/** Meanings of exit codes with a conventional meaning. */
const meanings = new Map([
  [124, 'timed out'],
  [126, 'not executable'],
  [127, 'command not found'],
  [130, 'interrupted'],
  [137, 'killed'],
  [139, 'crashed'],
  [143, 'terminated'],
])

export function outcomeOf({ status, exitCode }: Command): CommandOutcome {
  if (status === 'running') return { kind: 'running', label: 'Running' }
  if (status === 'interrupted') return { kind: 'interrupted', label: 'Interrupted' }
  if (status === 'denied') return { kind: 'failed', label: 'Permission denied' }
  if (exitCode !== null && exitCode !== 0) {
    const meaning = meanings.get(exitCode)
    return { kind: 'failed', label: `Failed with exit code ${exitCode}${meaning === undefined ? '' : `: ${meaning}`}` }
  }
  return status === 'failed' ? { kind: 'failed', label: 'Failed' } : { kind: 'done', label: 'Done' }
}

function linesWith(output: string, wanted: string): FoundLines {
  const lines: { number: number; text: string }[] = []
  let more = 0
  if (!output.toLowerCase().includes(wanted)) return { lines, more }
  output.split('\n').forEach((text, index) => {
    if (!text.toLowerCase().includes(wanted)) return
    if (lines.length < MAX_FOUND_LINES) lines.push({ number: index + 1, text })
    else more += 1
  })
  return { lines, more }
}
