import { useEffect, useEffectEvent, useRef, useState } from 'react'
import type { EventFrame, FilterChange } from './contract'
import { type Live, type LiveStatus, openLive } from './live'

export interface LiveHandle extends LiveStatus {
  readonly retry: () => void
}

/**
 * The socket of a page that shows more than one log. `onFrame` receives the events that match the filters.
 * `onSubscribed` is called after each subscription: a page that fetches then misses no event.
 */
export function useLive(
  filters: FilterChange,
  onFrame: (frame: EventFrame) => void,
  onSubscribed: () => void,
): LiveHandle {
  const [status, setStatus] = useState<LiveStatus>({ connection: 'connecting', detail: null, subscribed: false })
  const live = useRef<Live | null>(null)
  const receive = useEffectEvent((frames: readonly EventFrame[]) => {
    for (const frame of frames) onFrame(frame)
  })
  const subscribed = useEffectEvent(onSubscribed)
  const current = useEffectEvent(() => filters)
  useEffect(() => {
    const opened = openLive({
      filters: current(),
      onFrames: (frames) => receive(frames),
      onSubscribed: () => subscribed(),
      onStatus: setStatus,
    })
    live.current = opened
    return () => opened.close()
  }, [])
  // Callers often create the filters inline, so compare them by value.
  const serialized = JSON.stringify(filters)
  useEffect(() => live.current?.setFilters(current()), [serialized])
  return { ...status, retry: () => live.current?.retryNow() }
}
