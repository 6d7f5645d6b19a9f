import { useEffect, useEffectEvent } from 'react'
import { errorMessage } from '../../../api/errors'
import type { useLog } from '../../../api/use-log'
import { Button } from '../../../ui/button'
import { Spinner } from '../../../ui/spinner'
import { count } from '../../../util/numbers'

export type Log = ReturnType<typeof useLog>

/** Loads the run from its first event, for tabs that show all of it. */
export function useCompleteRun({ state, complete, loadAll }: Log) {
  const load = useEffectEvent(loadAll)
  useEffect(() => {
    if (state === 'ready' && !complete) load()
  }, [state, complete])
}

/** Loading progress, until the run is complete. */
export function CompleteRunProgress({ log }: { log: Log }) {
  if (log.complete) return null
  const { loaded, of } = log.progress ?? { loaded: log.events.length, of: log.last }
  return (
    <div className="flex items-center gap-3 border-b border-line bg-sunken px-4 py-2 text-sm text-ink-soft">
      {log.olderError !== null ? (
        <>
          <span role="alert">Some events could not be loaded. {errorMessage(log.olderError)}</span>
          <Button onClick={log.loadAll}>Try again</Button>
        </>
      ) : (
        <>
          <Spinner />
          <span>
            Loading all events… {count(loaded)} of {count(of)}
          </span>
          <progress
            aria-label="Loading all events"
            value={loaded}
            max={Math.max(1, of)}
            className="h-1.5 w-32 appearance-none overflow-hidden rounded bg-line accent-accent [&::-webkit-progress-bar]:bg-line [&::-webkit-progress-value]:bg-accent"
          />
        </>
      )}
    </div>
  )
}
