import type { ReactNode } from 'react'
import { useBody } from '../../../api/body'
import type { JsonObject } from '../../../api/contract'
import { sentence } from '../../../api/errors'
import { MoreButton } from '../../../ui/code'
import { useKept } from '../../../ui/kept'
import { Spinner } from '../../../ui/spinner'

/**
 * What a page left out of an event, once somebody asks for it: its whole data, and until then a way to ask.
 * `rest` is the event's number, or `null` where nothing was left out.
 */
export function useRest(sandboxId: string, rest: number | null, what: string): { body: JsonObject | null; more: ReactNode } {
  const [wanted, setWanted] = useKept(`full ${what}`, false)
  const query = useBody(sandboxId, wanted ? rest : null)
  if (rest === null) return { body: null, more: null }
  if (query.data !== undefined) return { body: query.data, more: null }
  const more = (
    <div>
      <MoreButton disabled={query.isFetching} onClick={() => (wanted ? void query.refetch() : setWanted(true))}>
        {query.isFetching && <Spinner />}
        {query.isFetching ? `Loading the full ${what}…` : `Load the full ${what}`}
      </MoreButton>
      {query.isError && (
        <p role="alert" className="text-sm text-bad">
          {sentence(query.error)}
        </p>
      )}
    </div>
  )
  return { body: null, more }
}
