import { useEffect, useEffectEvent, useRef, useState } from 'react'
import type { EventFrame, FilterChange } from './contract'
import { type Live, type LiveStatus, openLive } from './live'

export interface LiveHandle extends LiveStatus {
  readonly retry: () => void
}

/**
 * A page's one socket, for pages that show more than one log. `onFrame` gets whatever passes the filters;
 * `onSubscribed` is called each time that the socket is up: fetch then, and nothing is missed.
 */
export function useLive(
  filters: FilterChange,
  onFrame: (frame: EventFrame) => void,
  onSubscribed: () => void,
): LiveHandle {
  const [status, setStatus] = useState<LiveStatus>({ connection: 'connecting', detail: null, subscribed: false })
  const live = useRef<Live | null>(null)
  const hear = useEffectEvent((frames: readonly EventFrame[]) => {
    for (const frame of frames) onFrame(frame)
  })
  const subscribed = useEffectEvent(onSubscribed)
  const current = useEffectEvent(() => filters)
  useEffect(() => {
    const opened = openLive({
      filters: current(),
      onFrames: (frames) => hear(frames),
      onSubscribed: () => subscribed(),
      onStatus: setStatus,
    })
    live.current = opened
    return () => opened.close()
  }, [])
  // Filters are often written where they are used: only what they say counts.
  const wish = JSON.stringify(filters)
  useEffect(() => live.current?.setFilters(current()), [wish])
  return { ...status, retry: () => live.current?.retryNow() }
}
