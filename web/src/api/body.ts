import { useQuery } from '@tanstack/react-query'
import { api } from '../util/paths'
import type { JsonObject } from './contract'
import { get } from './http'

/** All of an event's data, for who asks for what a page left out. `null` asks for nothing. An event never changes. */
export function useBody(sandboxId: string, seq: number | null) {
  return useQuery({
    queryKey: ['event-body', sandboxId, seq],
    queryFn: ({ signal }) => get<JsonObject>(api.eventBody(sandboxId, seq ?? 0), {}, signal),
    enabled: seq !== null,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  })
}
