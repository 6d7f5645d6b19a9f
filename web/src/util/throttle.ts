import { useEffect, useRef } from 'react'

/** Coalesces calls: runs once, `delayMs` after the first call. Further calls before that have no effect. */
export function useThrottled(run: () => void, delayMs: number): () => void {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  useEffect(
    () => () => {
      clearTimeout(timer.current)
      timer.current = undefined
    },
    [],
  )
  return () => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined
      run()
    }, delayMs)
  }
}
