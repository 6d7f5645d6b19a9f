import { Ban, CircleCheck, CircleDashed, CircleX, Eye, LoaderCircle, RotateCcw, type LucideIcon } from 'lucide-react'
import { Badge, type Tone } from './badge'
import type { StatusGroup, Status } from './statuses'

export { ofSandbox, ofTask, ofTicket, type StatusGroup, type Status } from './statuses'

const styles: Record<StatusGroup, { tone: Tone; icon: LucideIcon }> = {
  running: { tone: 'info', icon: LoaderCircle },
  validating: { tone: 'accent', icon: RotateCcw },
  awaiting: { tone: 'warn', icon: Eye },
  pending: { tone: 'quiet', icon: CircleDashed },
  completed: { tone: 'good', icon: CircleCheck },
  failed: { tone: 'bad', icon: CircleX },
  cancelled: { tone: 'quiet', icon: Ban },
}

/** The status of a task, a sandbox or a ticket: `<StatusBadge status={ofTask(task)} />`. */
export function StatusBadge({ status }: { status: Status }) {
  return (
    <Badge tone={styles[status.group].tone} icon={<StatusIcon group={status.group} size={12} />}>
      {status.label}
    </Badge>
  )
}

/** The icon alone, for use next to the label. */
export function StatusIcon({ group, size = 14 }: { group: StatusGroup; size?: number }) {
  const Icon = styles[group].icon
  return <Icon aria-hidden size={size} className={group === 'running' ? 'animate-spin' : undefined} />
}
