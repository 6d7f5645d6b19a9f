import type { JsonObject } from '../../api/contract'
import type { Row, ToolRow } from '../../timeline/rows'
import { duration } from '../../util/time'

/** A row of a run in the form that is compared with the other run. */
export interface Step {
  readonly row: Row
  /** Steps of the same kind may be paired although their content differs. */
  readonly kind: string
  /** Steps with equal content are identical. */
  readonly content: string
  readonly title: string
  readonly detail: string
}

/**
 * The steps of a run. Excludes the creation of the sandbox, which is the same for every run, and removes the workspace
 * folder from paths, so that two runs that write the same file take the same step.
 */
export function steps(rows: readonly Row[], sandboxId: string): Step[] {
  const folder = new RegExp(`[^\\s"']*/${sandboxId.replaceAll('.', '\\.')}/(?:workspace/)?`, 'g')
  const step = (row: Row): Step => {
    const { kind, title, detail, content } = describe(row)
    return {
      row,
      kind,
      title,
      detail: firstLine(detail.replace(folder, '')),
      content: `${kind} ${(content ?? detail).replace(folder, '')}`,
    }
  }
  return rows
    .filter((row) => row.kind !== 'turn' && !(row.kind === 'line' && row.eventType.startsWith('sandbox.')))
    .map(step)
}

interface Description {
  kind: string
  title: string
  detail: string
  /** If it differs from the detail. */
  content?: string
}

function describe(row: Row): Description {
  switch (row.kind) {
    case 'text':
      return { kind: 'text', title: 'Text', detail: row.text }
    case 'thinking':
      return { kind: 'thinking', title: 'Thinking', detail: row.text }
    case 'message':
      return { kind: 'message', title: row.messageType === 'task' ? 'Task' : 'Message', detail: row.text }
    case 'tool':
      return describeTool(row)
    case 'file':
      return {
        kind: 'file',
        title: 'File changed',
        detail: row.change.path,
        content: `${row.change.path} ${row.change.diff}`,
      }
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
      return { kind: 'turn', title: 'Turn completed', detail: row.durationMs === null ? '' : duration(row.durationMs) }
    case 'preview':
      return { kind: `preview ${row.status}`, title: `Preview ${row.status}`, detail: row.url ?? '' }
    case 'other':
      return { kind: `other ${row.eventType}`, title: row.eventType, detail: '', content: JSON.stringify(row.data) }
  }
}

function describeTool(row: ToolRow): Description {
  const outcome = row.status === 'done' || row.status === 'running' ? '' : ` (${row.status})`
  return {
    kind: `tool ${row.tool}`,
    title: `${row.tool}${outcome}`,
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
