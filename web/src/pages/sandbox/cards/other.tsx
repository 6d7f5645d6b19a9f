import { Braces, FileQuestion } from 'lucide-react'
import type { OtherRow } from '../../../timeline/rows'
import { Code } from '../../../ui/code'
import { Card, Title } from './frame'
import { pretty } from './output'
import { useFullBody } from './full-body'

/** An event without a card of its own, shown as raw data. */
export function OtherCard({ row, sandboxId }: { row: OtherRow; sandboxId: string }) {
  const { body, more } = useFullBody(sandboxId, row.rest, 'event')
  const data = body ?? row.data
  return (
    <Card
      icon={row.unparsed ? <FileQuestion size={15} aria-hidden /> : <Braces size={15} aria-hidden />}
      folds="closed"
      title={<Title name={row.unparsed ? 'Unrecognized event' : 'Event'} about={row.eventType} />}
    >
      {Object.keys(data).length === 0 ? (
        <p className="text-ink-soft">No data</p>
      ) : (
        <Code text={pretty(data)} what="event" lines={60} more={more} />
      )}
    </Card>
  )
}
