import { CircleCheck, CircleX, LoaderCircle, type LucideIcon } from 'lucide-react'
import type { Connection } from '../api/live'
import { Badge, type Tone } from './badge'

const looks: Record<Connection, { word: string; tone: Tone; icon: LucideIcon; spins: boolean }> = {
  connecting: { word: 'Connecting', tone: 'quiet', icon: LoaderCircle, spins: true },
  live: { word: 'Live', tone: 'good', icon: CircleCheck, spins: false },
  reconnecting: { word: 'Reconnecting', tone: 'warn', icon: LoaderCircle, spins: true },
  disconnected: { word: 'Disconnected', tone: 'bad', icon: CircleX, spins: false },
}

/** How the page stands with the plane, with a way to try at once where that may help. */
export function ConnectionChip({
  connection,
  detail,
  onRetry,
}: {
  connection: Connection
  detail: string | null
  onRetry: () => void
}) {
  const { word, tone, icon: Icon, spins } = looks[connection]
  const mayRetry = connection === 'reconnecting' || connection === 'disconnected'
  return (
    <span className="inline-flex items-center gap-2" title={detail ?? undefined}>
      <span role="status" aria-label={detail === null ? `Connection: ${word}` : `Connection: ${word}. ${detail}`}>
        <Badge tone={tone} icon={<Icon aria-hidden size={12} className={spins ? 'animate-spin' : undefined} />}>
          {word}
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
