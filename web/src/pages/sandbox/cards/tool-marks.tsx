import type { ToolRow } from '../../../timeline/rows'
import { ProgressMark } from './frame'

export const toolTone = ({ status }: ToolRow) =>
  status === 'failed' ? 'bad' : status === 'denied' || status === 'interrupted' ? 'warn' : 'plain'

/** Repetitions, status and duration of a tool call. */
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

/** The reason of a denied permission. An allowed call shows nothing. */
export function Permission({ row }: { row: ToolRow }) {
  if (row.permission === null || row.permission.allowed) return null
  return (
    <p className="text-warn">
      {row.permission.reason === null ? 'Permission denied.' : `Permission denied: ${row.permission.reason}`}
    </p>
  )
}
