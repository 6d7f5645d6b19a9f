import type { ToolRow } from '../../../timeline/rows'
import { ProgressMark } from './frame'

export const toolTone = ({ status }: ToolRow) =>
  status === 'failed' ? 'bad' : status === 'refused' || status === 'interrupted' ? 'warn' : 'plain'

/** How often, how far, how long. */
export function ToolMarks({ row }: { row: ToolRow }) {
  return (
    <>
      {row.repeats > 1 && (
        <span className="shrink-0 text-xs text-ink-soft">
          <span className="sr-only">{row.repeats} times</span>
          <span aria-hidden>×{row.repeats}</span>
        </span>
      )}
      <ProgressMark status={row.status} since={row.at} durationMs={row.durationMs} />
    </>
  )
}

/** Why it was refused. That it was allowed goes without saying. */
export function Permission({ row }: { row: ToolRow }) {
  if (row.permission === null || row.permission.allowed) return null
  return <p className="text-warn">{row.permission.reason === null ? 'It was not allowed.' : `It was not allowed: ${row.permission.reason}`}</p>
}
