import type { JsonObject } from '../../api/contract'
import type { Row, ToolRow } from '../../timeline/rows'
import { duration } from '../../util/time'

/** One row of a run, in short: what two runs are compared by. */
export interface Step {
  readonly row: Row
  /** What kind of step it is. Steps of one kind may stand beside each other, though they say different things. */
  readonly kind: string
  /** What it says or does: two steps with the same are the same. */
  readonly content: string
  readonly title: string
  readonly detail: string
}

/**
 * The steps of a run. Sandboxes are made in the same way for every run: that is no step of the agent's. Nor is where a
 * sandbox keeps its files: two runs that write the same file do the same, though each has a folder of its own.
 */
export function steps(rows: readonly Row[], sandboxId: string): Step[] {
  const folder = new RegExp(`[^\\s"']*/${sandboxId.replaceAll('.', '\\.')}/(?:workspace/)?`, 'g')
  const step = (row: Row): Step => {
    const { kind, title, detail, content } = told(row)
    return {
      row,
      kind,
      title,
      detail: firstLine(detail.replace(folder, '')),
      content: `${kind} ${(content ?? detail).replace(folder, '')}`,
    }
  }
  return rows.filter((row) => row.kind !== 'turn' && !(row.kind === 'line' && row.eventType.startsWith('sandbox.'))).map(step)
}

interface Told {
  kind: string
  title: string
  detail: string
  /** Where the detail is not all of it. */
  content?: string
}

function told(row: Row): Told {
  switch (row.kind) {
    case 'text':
      return { kind: 'text', title: 'Writes', detail: row.text }
    case 'thinking':
      return { kind: 'thinking', title: 'Thinks', detail: row.text }
    case 'said':
      return { kind: 'said', title: row.messageType === 'task' ? 'Task' : 'Is told', detail: row.text }
    case 'tool':
      return toolTold(row)
    case 'file':
      return { kind: 'file', title: 'A file changed', detail: row.change.path, content: `${row.change.path} ${row.change.diff}` }
    case 'subagent':
      return { kind: 'subagent', title: `Sub-agent ${row.agent}`, detail: row.description, content: row.prompt }
    case 'skill':
      return { kind: 'skill', title: 'Skill', detail: row.skill }
    case 'plan':
      return {
        kind: 'plan',
        title: 'Plan',
        detail: `${row.items.filter((item) => item.status === 'completed').length} of ${row.items.length} done`,
        content: row.items.map((item) => `${item.status} ${item.text}`).join('\n'),
      }
    case 'line':
      return { kind: `line ${row.eventType}`, title: row.text, detail: row.detail ?? '', content: row.text }
    case 'error':
      return { kind: 'error', title: row.title, detail: row.text }
    case 'iteration':
      return { kind: 'iteration', title: row.text, detail: row.detail ?? '', content: row.text }
    case 'turn':
      return { kind: 'turn', title: 'Turn over', detail: row.durationMs === null ? '' : duration(row.durationMs) }
    case 'preview':
      return { kind: `preview ${row.status}`, title: `Preview ${row.status}`, detail: row.url ?? '' }
    case 'other':
      return { kind: `other ${row.eventType}`, title: row.eventType, detail: '', content: JSON.stringify(row.data) }
  }
}

function toolTold(row: ToolRow): Told {
  const ended = row.status === 'done' || row.status === 'running' ? '' : ` (${row.status})`
  return {
    kind: `tool ${row.tool}`,
    title: `${row.tool}${ended}`,
    detail: mainArgument(row.input),
    content: `${row.status} ${JSON.stringify(row.input)}`,
  }
}

const MAIN_ARGUMENTS = ['file_path', 'path', 'command', 'pattern', 'url', 'query', 'description', 'prompt'] as const

function mainArgument(input: JsonObject): string {
  for (const name of MAIN_ARGUMENTS) {
    const value = input[name]
    if (typeof value === 'string') return value
  }
  return ''
}

const firstLine = (text: string) => {
  const line = text.trimStart().split('\n', 1)[0] ?? ''
  return line.length > 200 ? `${line.slice(0, 200)}…` : line
}
