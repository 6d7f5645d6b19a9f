import { useQuery } from '@tanstack/react-query'
import { api } from '../util/paths'
import type { JsonObject } from './contract'
import { get } from './http'

/** Fetches the full data of an event that a page abridged. `null` disables the query. Events are immutable. */
export function useBody(sandboxId: string, seq: number | null) {
  return useQuery({
    queryKey: ['event-body', sandboxId, seq],
    queryFn: ({ signal }) => get<JsonObject>(api.eventBody(sandboxId, seq ?? 0), {}, signal),
    enabled: seq !== null,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  })
}
