import type { ReactNode } from 'react'
import { useBody } from '../../../api/body'
import type { JsonObject } from '../../../api/contract'
import { errorMessage } from '../../../api/errors'
import { MoreButton } from '../../../ui/code'
import { useRetainedState } from '../../../ui/retained-state'
import { Spinner } from '../../../ui/spinner'

/**
 * Loads the full data of an abridged event on demand. Returns the data, or until then a button that loads it.
 * `rest` is the event's sequence number, or `null` if it is not abridged.
 */
export function useFullBody(
  sandboxId: string,
  rest: number | null,
  what: string,
): { body: JsonObject | null; more: ReactNode } {
  const [requested, setRequested] = useRetainedState(`full ${what}`, false)
  const query = useBody(sandboxId, requested ? rest : null)
  if (rest === null) return { body: null, more: null }
  if (query.data !== undefined) return { body: query.data, more: null }
  const more = (
    <div>
      <MoreButton disabled={query.isFetching} onClick={() => (requested ? void query.refetch() : setRequested(true))}>
        {query.isFetching && <Spinner />}
        {query.isFetching ? `Loading full ${what}…` : `Load full ${what}`}
      </MoreButton>
      {query.isError && (
        <p role="alert" className="text-sm text-bad">
          {errorMessage(query.error)}
        </p>
      )}
    </div>
  )
  return { body: null, more }
}
