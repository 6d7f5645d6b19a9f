import { memo } from 'react'
import type { Row } from '../../../timeline/rows'
import { RetainedScope } from '../../../ui/retained-state'
import { FileChangeCard } from './file-change'
import { ErrorCard, IterationCard, LineCard, PreviewCard, TurnCard } from './lines'
import { OtherCard } from './other'
import { PlanCard } from './plan'
import { MessageCard, TextCard, ThinkingCard } from './messages'
import { SkillCard, SubagentCard } from './subagent'
import { ToolCard } from './tool'

/** A row of the feed. Memoized: rows are immutable. */
export const RowCard = memo(function RowCard({ row, sandboxId }: { row: Row; sandboxId: string }) {
  return (
    <RetainedScope name={row.key}>
      <CardOf row={row} sandboxId={sandboxId} />
    </RetainedScope>
  )
})

function CardOf({ row, sandboxId }: { row: Row; sandboxId: string }) {
  switch (row.kind) {
    case 'text':
      return <TextCard row={row} sandboxId={sandboxId} />
    case 'thinking':
      return <ThinkingCard row={row} sandboxId={sandboxId} />
    case 'message':
      return <MessageCard row={row} sandboxId={sandboxId} />
    case 'tool':
      return <ToolCard row={row} sandboxId={sandboxId} />
    case 'file':
      return <FileChangeCard change={row.change} sandboxId={sandboxId} />
    case 'subagent':
      return <SubagentCard row={row} sandboxId={sandboxId} />
    case 'skill':
      return <SkillCard row={row} sandboxId={sandboxId} />
    case 'plan':
      return <PlanCard row={row} />
    case 'line':
      return <LineCard row={row} />
    case 'error':
      return <ErrorCard row={row} />
    case 'iteration':
      return <IterationCard row={row} />
    case 'turn':
      return <TurnCard row={row} />
    case 'preview':
      return <PreviewCard row={row} />
    case 'other':
      return <OtherCard row={row} sandboxId={sandboxId} />
  }
}
