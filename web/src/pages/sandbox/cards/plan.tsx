import { CircleCheck, CircleDashed, CircleDot, ListTodo } from 'lucide-react'
import type { ReactNode } from 'react'
import type { PlanItem, PlanRow } from '../../../timeline/rows'
import { classes } from '../../../util/classes'
import { count } from '../../../util/numbers'
import { Card, Title } from './frame'

/** What the agent means to do, as it stands. */
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

const looks: Record<PlanItem['status'], { word: string; icon: ReactNode; className: string }> = {
  completed: { word: 'Done', icon: <CircleCheck size={15} aria-hidden className="text-good" />, className: 'text-ink-soft' },
  in_progress: { word: 'In progress', icon: <CircleDot size={15} aria-hidden className="text-info" />, className: 'font-medium' },
  pending: { word: 'To do', icon: <CircleDashed size={15} aria-hidden className="text-ink-faint" />, className: '' },
}

export function PlanItems({ items }: { items: readonly PlanItem[] }) {
  if (items.length === 0) return <p className="text-ink-soft">Nothing is planned.</p>
  return (
    <ul className="flex flex-col gap-1">
      {items.map((item, index) => {
        const look = looks[item.status]
        return (
          <li key={index} className="flex items-start gap-2">
            <span className="mt-0.5 shrink-0">{look.icon}</span>
            <span className={classes('min-w-0 break-words', look.className)}>
              <span className="sr-only">{look.word}: </span>
              {item.text}
            </span>
          </li>
        )
      })}
    </ul>
  )
}
