import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { SandboxList } from '../../api/contract'
import { get } from '../../api/http'
import { keys } from '../../api/queries'
import { type FullLog, useFullLog } from '../../api/full-log'
import { momentAt } from '../../replay/moment'
import type { LogEvent } from '../../timeline/event'
import { hasTrait } from '../../timeline/event-traits'
import type { Row } from '../../timeline/rows'
import type { Run } from '../../timeline/run'
import { api } from '../../util/paths'

/** One of the two runs. */
export interface Side {
  readonly sandboxId: string
  readonly run: Run
  readonly rows: readonly Row[]
}

/** `side` is `null` until the complete log is loaded. */
export function useSide(sandboxId: string | null): { readonly log: FullLog; readonly side: Side | null } {
  const log = useFullLog(sandboxId, hasEnded)
  const { events, state } = log
  const side = useMemo(() => {
    if (sandboxId === null || state !== 'ready') return null
    const { timeline, run } = momentAt(events, events.length)
    return { sandboxId, run, rows: timeline.rows }
  }, [sandboxId, events, state])
  return { log, side }
}

/** After such an event a log does not grow. */
const hasEnded = (events: readonly LogEvent[]) => events.some(({ type }) => hasTrait(type, 'ends_sandbox'))

export function useRecentRuns() {
  return useQuery({
    queryKey: [...keys.lists, 'recent-runs'],
    queryFn: async ({ signal }) => (await get<SandboxList>(api.sandboxes, { limit: 100 }, signal)).sandboxes,
  })
}
