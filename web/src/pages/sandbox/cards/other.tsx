import { Braces, FileQuestion } from 'lucide-react'
import type { OtherRow } from '../../../timeline/rows'
import { Code } from '../../../ui/code'
import { Card, Title } from './frame'
import { pretty } from './output'
import { useRest } from './rest'

/** What nobody has a card for, as it was told. */
export function OtherCard({ row, sandboxId }: { row: OtherRow; sandboxId: string }) {
  const { body, more } = useRest(sandboxId, row.rest, 'event')
  const data = body ?? row.data
  return (
    <Card
      icon={row.unparsed ? <FileQuestion size={15} aria-hidden /> : <Braces size={15} aria-hidden />}
      folds="closed"
      title={<Title name={row.unparsed ? 'Not understood' : 'Event'} about={row.eventType} />}
    >
      {Object.keys(data).length === 0 ? <p className="text-ink-soft">It says nothing more.</p> : <Code text={pretty(data)} what="event" lines={60} more={more} />}
    </Card>
  )
}
