import { useQueryClient } from '@tanstack/react-query'
import { useSearchParams } from 'react-router'
import type { EventFrame } from '../api/contract'
import { useRecentTickets } from '../api/lists'
import { keys } from '../api/queries'
import { useLive } from '../api/use-live'
import { ConnectionChip } from '../ui/connection'
import { useCalm } from '../util/calm'
import { PromptForm } from './command/prompt-form'
import { RECENT, RecentTickets } from './command/recent-tickets'
import { TicketProgress } from './command/ticket-progress'
import { TURNS, progressKey } from './command/use-progress'

const PROGRESS_MS = 100
const RECENT_MS = 1_000

/** Says what is wanted; with a ticket in the address, shows how far that one has come. */
export default function CommandPage() {
  const [address] = useSearchParams()
  const ticketId = address.get('ticket')
  const queries = useQueryClient()
  const recent = useRecentTickets(RECENT)

  const readProgress = useCalm(() => {
    if (ticketId !== null) void queries.invalidateQueries({ queryKey: progressKey(ticketId) })
  }, PROGRESS_MS)
  const readRecent = useCalm(() => void queries.invalidateQueries({ queryKey: keys.lists }), RECENT_MS)
  const hear = (frame: EventFrame) => {
    // Those of others are none of this ticket's business, however much is spawned at the same moment.
    if (ticketId !== null && isAbout(frame, ticketId)) readProgress()
    if (frame.entity_type !== 'sandbox') readRecent()
  }
  const live = useLive({ event_types: TURNS }, hear, () => {
    readProgress()
    readRecent()
  })
  return (
    <div className="mx-auto flex max-w-3xl flex-col gap-8 px-4 py-6 sm:py-10">
      <title>Command · Sunaba</title>
      {ticketId === null ? (
        <PromptForm recent={recent.data ?? []} />
      ) : (
        <div className="flex flex-col gap-3">
          <div className="self-end">
            <ConnectionChip connection={live.connection} detail={live.detail} onRetry={() => live.retry()} />
          </div>
          <TicketProgress key={ticketId} ticketId={ticketId} isLive={live.connection === 'live'} />
        </div>
      )}
      <RecentTickets />
    </div>
  )
}

function isAbout(frame: EventFrame, ticketId: string): boolean {
  return frame.entity_type === 'ticket' ? frame.entity_id === ticketId : frame.payload['ticket_id'] === ticketId
}
