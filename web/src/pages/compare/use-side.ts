import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { SandboxList } from '../../api/contract'
import { get } from '../../api/http'
import { keys } from '../../api/queries'
import { type WholeLog, useWholeLog } from '../../api/whole-log'
import { momentAt } from '../../replay/at'
import type { LogEvent } from '../../timeline/event'
import type { Row } from '../../timeline/rows'
import type { Run } from '../../timeline/run'
import { api } from '../../util/paths'

/** One of the two runs, with all that happened in it. */
export interface Side {
  readonly sandboxId: string
  readonly run: Run
  readonly rows: readonly Row[]
}

/** `side` is `null` until the whole log is here. */
export function useSide(sandboxId: string | null): { readonly log: WholeLog; readonly side: Side | null } {
  const log = useWholeLog(sandboxId, isOver)
  const { events, state } = log
  const side = useMemo(() => {
    if (sandboxId === null || state !== 'ready') return null
    const { timeline, run } = momentAt(events, events.length)
    return { sandboxId, run, rows: timeline.rows }
  }, [sandboxId, events, state])
  return { log, side }
}

/** Whether nothing more will come. */
const OVER = new Set(['sandbox.completed', 'sandbox.failed', 'sandbox.terminated', 'sandbox.terminated_idle', 'sandbox.released'])
const isOver = (events: readonly LogEvent[]) => events.some((event) => OVER.has(event.type))

export function useRecentRuns() {
  return useQuery({
    queryKey: [...keys.lists, 'recent-runs'],
    queryFn: async ({ signal }) => (await get<SandboxList>(api.sandboxes, { limit: 100 }, signal)).sandboxes,
  })
}
