import type { Row } from '../../timeline/rows'
import { timeOfDay } from '../../util/time'

// Heights, counts and names of rows for the feed. The cards render them.

/** Estimated height of a row until it is measured. The closer the estimate, the less the scrollbar jumps. */
export function estimate(row: Row): number {
  const known = estimates.get(row)
  if (known !== undefined) return known
  const height = heightOf(row)
  estimates.set(row, height)
  return height
}

/** Rows are immutable, so estimates can be cached by object. */
const estimates = new WeakMap<Row, number>()

const LINE_PX = 22
const CHARACTERS_PER_LINE = 95

const paragraph = (text: string, maxLines: number) =>
  Math.min(maxLines, 1 + Math.floor(text.length / CHARACTERS_PER_LINE)) * LINE_PX

function heightOf(row: Row): number {
  switch (row.kind) {
    case 'text':
      return 36 + paragraph(row.text, 80)
    case 'thinking':
      return 54 + paragraph(row.text, 4)
    case 'message':
      return 80 + paragraph(row.text, 40)
    case 'tool':
      return toolHeight(row)
    case 'file':
      return 60 + Math.min(25, row.change.added + row.change.removed + 6) * 20
    case 'subagent':
      return 130 + paragraph(row.result ?? '', 20)
    case 'plan':
      return 56 + row.items.length * 26
    case 'error':
      return 90 + paragraph(row.text, 40)
    case 'skill':
    case 'other':
      return 50
    case 'turn':
      return 36
    case 'line':
    case 'iteration':
    case 'preview':
      return 30
  }
}

function toolHeight(row: Extract<Row, { kind: 'tool' }>): number {
  switch (row.tool) {
    case 'Bash': {
      const output = typeof row.output === 'string' ? row.output.length : 0
      return 80 + (output === 0 ? 18 : 24 + Math.min(15, 1 + Math.floor(output / 60)) * 20) + row.files.length * 44
    }
    case 'Write':
    case 'Edit':
    case 'MultiEdit':
      return row.files.reduce((sum, file) => sum + 60 + Math.min(25, file.added + file.removed + 6) * 20, 12)
    case 'AskUserQuestion':
      return 160
    default:
      return row.status === 'failed' ? 110 : 50
  }
}

/** Whether a row reports an error or a failure. */
export function isError(row: Row): boolean {
  if (row.kind === 'error') return true
  if (row.kind === 'turn') return !row.success && !row.interrupted
  return (row.kind === 'tool' || row.kind === 'subagent' || row.kind === 'skill') && row.status === 'failed'
}

/** The next error after this row, wrapping around; -1 if there is none. */
export function nextError(rows: readonly Row[], after: number): number {
  for (let step = 1; step <= rows.length; step += 1) {
    const index = (after + step) % rows.length
    const row = rows[index]
    if (row !== undefined && isError(row)) return index
  }
  return -1
}

/** Number of rows after this event. */
export function countAfter(rows: readonly Row[], seq: number): number {
  let count = 0
  while (count < rows.length && (rows[rows.length - 1 - count]?.seq ?? 0) > seq) count += 1
  return count
}

/** Accessible name of a row. */
export function nameOf(row: Row): string {
  return `${labelOf(row)}, ${timeOfDay(row.at)}`
}

function labelOf(row: Row): string {
  switch (row.kind) {
    case 'text':
      return 'Agent'
    case 'thinking':
      return 'Thinking'
    case 'message':
      return 'Message to the agent'
    case 'tool':
      return row.tool
    case 'file':
      return 'File'
    case 'subagent':
      return 'Sub-agent'
    case 'skill':
      return 'Skill'
    case 'plan':
      return 'Plan'
    case 'error':
      return 'Error'
    case 'iteration':
      return 'Iteration'
    case 'turn':
      return 'End of turn'
    case 'preview':
      return 'Preview'
    case 'line':
    case 'other':
      return 'Event'
  }
}

/** Number of recent rows that are searched for an announcement. */
const ANNOUNCED_ROWS = 40

/**
 * The text for screen readers: only ends and errors are announced, not every row.
 */
export function announcement(rows: readonly Row[]): string {
  for (let index = rows.length - 1; index >= Math.max(0, rows.length - ANNOUNCED_ROWS); index -= 1) {
    const row = rows[index]
    if (row === undefined) break
    if (row.kind === 'error') return `Error: ${row.title}`
    if (row.kind === 'turn')
      return row.interrupted ? 'Turn interrupted.' : row.success ? 'Turn completed.' : 'Turn failed.'
    if (row.kind === 'line' && (row.tone === 'good' || row.tone === 'bad')) return row.text
    if (row.kind === 'preview' && row.status === 'ready') return 'Preview ready.'
  }
  return ''
}
