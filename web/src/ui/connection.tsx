import { CircleCheck, CircleX, LoaderCircle, type LucideIcon } from 'lucide-react'
import type { Connection } from '../api/live'
import { Badge, type Tone } from './badge'

const styles: Record<Connection, { label: string; tone: Tone; icon: LucideIcon; spins: boolean }> = {
  connecting: { label: 'Connecting', tone: 'quiet', icon: LoaderCircle, spins: true },
  live: { label: 'Live', tone: 'good', icon: CircleCheck, spins: false },
  reconnecting: { label: 'Reconnecting', tone: 'warn', icon: LoaderCircle, spins: true },
  disconnected: { label: 'Disconnected', tone: 'bad', icon: CircleX, spins: false },
}

/** The connection status, with a retry button while it is not connected. */
export function ConnectionChip({
  connection,
  detail,
  onRetry,
}: {
  connection: Connection
  detail: string | null
  onRetry: () => void
}) {
  const { label, tone, icon: Icon, spins } = styles[connection]
  const mayRetry = connection === 'reconnecting' || connection === 'disconnected'
  return (
    <span className="inline-flex items-center gap-2" title={detail ?? undefined}>
      <span role="status" aria-label={detail === null ? `Connection: ${label}` : `Connection: ${label}. ${detail}`}>
        <Badge tone={tone} icon={<Icon aria-hidden size={12} className={spins ? 'animate-spin' : undefined} />}>
          {label}
        </Badge>
      </span>
      {mayRetry && (
        <button type="button" onClick={onRetry} className="text-xs font-medium text-accent hover:underline">
          Retry
        </button>
      )}
    </span>
  )
}
