import { createContext, useContext, useSyncExternalStore } from 'react'

/** "just now", "5m ago", "3h ago", "2d ago", "6w ago". */
export function relative(at: string, now: number): string {
  const seconds = Math.max(0, Math.floor((now - Date.parse(at)) / 1000))
  if (seconds < 60) return 'just now'
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ago`
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h ago`
  if (seconds < 14 * 86_400) return `${Math.floor(seconds / 86_400)}d ago`
  return `${Math.floor(seconds / (7 * 86_400))}w ago`
}

/** "0.4 s", "12 s", "3 min 5 s", "2 h 4 min". */
export function duration(milliseconds: number): string {
  if (milliseconds < 9_950) return `${(Math.max(0, milliseconds) / 1000).toFixed(1)} s`
  const seconds = Math.round(milliseconds / 1000)
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })

export const timeOfDay = (at: string) => clock.format(new Date(at))

/** Date and time, for tooltips and details. */
export const dateAndTime = (at: string) => full.format(new Date(at))

/** Overrides the current time for its children: a replay shows durations as of the replayed moment. */
export const ClockOverride = createContext<number | null>(null)

/** The current time for labels like "5m ago", updated every ten seconds by one shared timer. */
export const useNow = ticker(10_000)

/** The current time to the second, for what is running now. */
export const useSecond = ticker(1_000)

/** A hook that returns the time from one shared timer, which stops while it has no users. */
function ticker(everyMs: number) {
  let now = Date.now()
  let ticking: ReturnType<typeof setInterval> | undefined
  const listeners = new Set<() => void>()
  const subscribe = (listener: () => void) => {
    listeners.add(listener)
    if (ticking === undefined) {
      now = Date.now()
      ticking = setInterval(() => {
        now = Date.now()
        for (const each of listeners) each()
      }, everyMs)
    }
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0) {
        clearInterval(ticking)
        ticking = undefined
      }
    }
  }
  return function useTime(): number {
    const ticked = useSyncExternalStore(subscribe, () => now)
    return useContext(ClockOverride) ?? ticked
  }
}
