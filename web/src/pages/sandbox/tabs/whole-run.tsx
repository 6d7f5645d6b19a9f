import { useEffect } from 'react'
import type { useLog } from '../../../api/use-log'
import { Button } from '../../../ui/button'
import { Spinner } from '../../../ui/spinner'
import { count } from '../../../util/numbers'

/** What the tabs of a sandbox are given. */
export type Log = ReturnType<typeof useLog>

/** Asks for the run from its first event on: these tabs speak of all of it. */
export function useWholeRun({ state, whole, loadAll }: Log) {
  useEffect(() => {
    if (state === 'ready' && !whole) loadAll()
  }, [state, whole, loadAll])
}

/** How much of the run is here, until it is all of it. */
export function WholeRunProgress({ log }: { log: Log }) {
  if (log.whole) return null
  const loaded = log.events.length
  const stopped = log.state === 'ready' && !log.loadingOlder && log.error !== null
  return (
    <div className="flex items-center gap-3 border-b border-line bg-sunken px-4 py-2 text-sm text-ink-soft">
      {stopped ? (
        <>
          <span role="alert">Only a part of the run could be loaded.</span>
          <Button onClick={log.loadAll}>Try again</Button>
        </>
      ) : (
        <>
          <Spinner />
          <span>
            Loading the whole run… {count(loaded)} of {count(log.last)} events
          </span>
          <progress
            aria-label="Loading the whole run"
            value={loaded}
            max={Math.max(1, log.last)}
            className="h-1.5 w-32 appearance-none overflow-hidden rounded bg-line accent-accent [&::-webkit-progress-bar]:bg-line [&::-webkit-progress-value]:bg-accent"
          />
        </>
      )}
    </div>
  )
}
