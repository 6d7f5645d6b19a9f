import { useEffect, useEffectEvent } from 'react'
import { sentence } from '../../../api/errors'
import type { useLog } from '../../../api/use-log'
import { Button } from '../../../ui/button'
import { Spinner } from '../../../ui/spinner'
import { count } from '../../../util/numbers'

/** What the tabs of a sandbox are given. */
export type Log = ReturnType<typeof useLog>

/** Asks for the run from its first event on: these tabs speak of all of it. */
export function useWholeRun({ state, whole, loadAll }: Log) {
  const load = useEffectEvent(loadAll)
  useEffect(() => {
    if (state === 'ready' && !whole) load()
  }, [state, whole])
}

/** How much of the run is here, until it is all of it. */
export function WholeRunProgress({ log }: { log: Log }) {
  if (log.whole) return null
  const { loaded, of } = log.progress ?? { loaded: log.events.length, of: log.last }
  return (
    <div className="flex items-center gap-3 border-b border-line bg-sunken px-4 py-2 text-sm text-ink-soft">
      {log.olderError !== null ? (
        <>
          <span role="alert">Only a part of the run could be loaded. {sentence(log.olderError)}</span>
          <Button onClick={log.loadAll}>Try again</Button>
        </>
      ) : (
        <>
          <Spinner />
          <span>
            Loading the whole run… {count(loaded)} of {count(of)} events
          </span>
          <progress
            aria-label="Loading the whole run"
            value={loaded}
            max={Math.max(1, of)}
            className="h-1.5 w-32 appearance-none overflow-hidden rounded bg-line accent-accent [&::-webkit-progress-bar]:bg-line [&::-webkit-progress-value]:bg-accent"
          />
        </>
      )}
    </div>
  )
}
