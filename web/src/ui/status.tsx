import { Ban, CircleCheck, CircleDashed, CircleX, Eye, LoaderCircle, RotateCcw, type LucideIcon } from 'lucide-react'
import { Badge, type Tone } from './badge'
import type { Standing, Status } from './standing'

export { ofSandbox, ofTask, ofTicket, type Standing, type Status } from './standing'

const looks: Record<Standing, { tone: Tone; icon: LucideIcon }> = {
  running: { tone: 'info', icon: LoaderCircle },
  validating: { tone: 'accent', icon: RotateCcw },
  awaiting: { tone: 'warn', icon: Eye },
  pending: { tone: 'quiet', icon: CircleDashed },
  completed: { tone: 'good', icon: CircleCheck },
  failed: { tone: 'bad', icon: CircleX },
  cancelled: { tone: 'quiet', icon: Ban },
}

/** Where a task, a sandbox or a ticket stands: `<StatusBadge status={ofTask(task)} />`. */
export function StatusBadge({ status }: { status: Status }) {
  return (
    <Badge tone={looks[status.standing].tone} icon={<StatusIcon standing={status.standing} size={12} />}>
      {status.word}
    </Badge>
  )
}

/** Its icon alone, where the word stands beside it. */
export function StatusIcon({ standing, size = 14 }: { standing: Standing; size?: number }) {
  const Icon = looks[standing].icon
  return <Icon aria-hidden size={size} className={standing === 'running' ? 'animate-spin' : undefined} />
}
