import { CircleCheck, CircleDashed, CircleDot, ListTodo } from 'lucide-react'
import type { ReactNode } from 'react'
import type { PlanItem, PlanRow } from '../../../timeline/rows'
import { classes } from '../../../util/classes'
import { count } from '../../../util/numbers'
import { Card, Title } from './frame'

export function PlanCard({ row }: { row: PlanRow }) {
  const done = row.items.filter((item) => item.status === 'completed').length
  return (
    <Card
      icon={<ListTodo size={15} aria-hidden />}
      folds="open"
      title={<Title name="Plan" />}
      aside={
        <span className="text-xs text-ink-soft tabular-nums">
          {count(done)} of {count(row.items.length)} done
        </span>
      }
    >
      <PlanItems items={row.items} />
    </Card>
  )
}

const styles: Record<PlanItem['status'], { label: string; icon: ReactNode; className: string }> = {
  completed: {
    label: 'Done',
    icon: <CircleCheck size={15} aria-hidden className="text-good" />,
    className: 'text-ink-soft',
  },
  in_progress: {
    label: 'In progress',
    icon: <CircleDot size={15} aria-hidden className="text-info" />,
    className: 'font-medium',
  },
  pending: { label: 'To do', icon: <CircleDashed size={15} aria-hidden className="text-ink-faint" />, className: '' },
}

export function PlanItems({ items }: { items: readonly PlanItem[] }) {
  if (items.length === 0) return <p className="text-ink-soft">The plan is empty.</p>
  return (
    <ul className="flex flex-col gap-1">
      {items.map((item, index) => {
        const style = styles[item.status]
        return (
          <li key={index} className="flex items-start gap-2">
            <span className="mt-0.5 shrink-0">{style.icon}</span>
            <span className={classes('min-w-0 break-words', style.className)}>
              <span className="sr-only">{style.label}: </span>
              {item.text}
            </span>
          </li>
        )
      })}
    </ul>
  )
}
