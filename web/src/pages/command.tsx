import { useQueryClient } from '@tanstack/react-query'
import { useSearchParams } from 'react-router'
import type { EventFrame } from '../api/contract'
import { useRecentTickets } from '../api/lists'
import { keys } from '../api/queries'
import { useLive } from '../api/use-live'
import { fromFrame } from '../timeline/event'
import type { EventTypeWith } from '../timeline/event-traits'
import { someText } from '../timeline/read'
import { ConnectionChip } from '../ui/connection'
import { useThrottled } from '../util/throttle'
import { PromptForm } from './command/prompt-form'
import { RECENT, RecentTickets } from './command/recent-tickets'
import { TicketProgress } from './command/ticket-progress'
import { PROGRESS_EVENTS, progressKey } from './command/use-progress'

const PROGRESS_MS = 100
const RECENT_MS = 1_000

/** Creates tickets; with a ticket in the URL, shows its progress. */
export default function CommandPage() {
  const [address] = useSearchParams()
  const ticketId = address.get('ticket')
  const queries = useQueryClient()
  const recent = useRecentTickets(RECENT)

  const refreshProgress = useThrottled(() => {
    if (ticketId !== null) void queries.invalidateQueries({ queryKey: progressKey(ticketId) })
  }, PROGRESS_MS)
  const refreshRecent = useThrottled(() => void queries.invalidateQueries({ queryKey: keys.lists }), RECENT_MS)
  const onFrame = (frame: EventFrame) => {
    // Ignore events of other tickets, even if their sandboxes start at the same moment.
    if (ticketId !== null && isAbout(frame, ticketId)) refreshProgress()
    if (frame.entity_type !== 'sandbox') refreshRecent()
  }
  const live = useLive({ event_types: PROGRESS_EVENTS }, onFrame, () => {
    refreshProgress()
    refreshRecent()
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
  if (frame.entity_type === 'ticket') return frame.entity_id === ticketId
  const event = fromFrame(frame)
  return event !== null && someText<EventTypeWith<'changes_progress'>>(event.data, 'ticket_id') === ticketId
}
