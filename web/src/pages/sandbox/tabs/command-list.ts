import type { Command } from '../../../timeline/run'

/** A command that is shown, and the lines of its output that somebody looks for. */
export interface ShownCommand {
  readonly command: Command
  /** `null` while nobody looks for anything: all of its output is shown. */
  readonly found: FoundLines | null
}

export interface FoundLines {
  readonly lines: readonly { readonly number: number; readonly text: string }[]
  /** Further lines that are not listed. */
  readonly more: number
}

const MOST_FOUND = 20

/** The commands that have this in their text or output, in order. Searching is without regard to case and colours. */
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
  readonly words: string
}

/** What a shell's numbers mean, for those that mean the same everywhere. */
const meanings = new Map([
  [124, 'it took too long'],
  [126, 'it could not be run'],
  [127, 'there is no such command'],
  [130, 'it was interrupted'],
  [137, 'it was killed'],
  [139, 'it crashed'],
  [143, 'it was ended'],
])

export function outcomeOf({ status, exitCode }: Command): CommandOutcome {
  if (status === 'running') return { kind: 'running', words: 'Running' }
  if (status === 'interrupted') return { kind: 'interrupted', words: 'Its agent ended before it' }
  if (status === 'refused') return { kind: 'failed', words: 'Not allowed' }
  if (exitCode !== null && exitCode !== 0) {
    const meaning = meanings.get(exitCode)
    return { kind: 'failed', words: `Failed with exit code ${exitCode}${meaning === undefined ? '' : `: ${meaning}`}` }
  }
  return status === 'failed' ? { kind: 'failed', words: 'Failed' } : { kind: 'done', words: 'Done' }
}

function linesWith(output: string, wanted: string): FoundLines {
  const lines: { number: number; text: string }[] = []
  let more = 0
  if (!output.toLowerCase().includes(wanted)) return { lines, more }
  output.split('\n').forEach((text, index) => {
    if (!text.toLowerCase().includes(wanted)) return
    if (lines.length < MOST_FOUND) lines.push({ number: index + 1, text })
    else more += 1
  })
  return { lines, more }
}
