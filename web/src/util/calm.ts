import { useEffect, useRef } from 'react'

/** A function that runs once, a moment after the first of many calls. Calls during that moment are the same one. */
export function useCalm(run: () => void, delayMs: number): () => void {
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
