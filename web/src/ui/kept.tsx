import { type ReactNode, createContext, useContext, useState } from 'react'

/**
 * What a reader opened stays open when its row leaves the screen and comes back: a virtual list forgets whatever its
 * rows hold, so rows hold it here. Without a `Keep` around it, it is plain state.
 */
const Memory = createContext<Map<string, unknown> | null>(null)
const Place = createContext('')

/** Remembers for everything inside it, as long as it is shown itself. */
export function Keep({ children }: { children: ReactNode }) {
  const [memory] = useState(() => new Map<string, unknown>())
  return <Memory value={memory}>{children}</Memory>
}

/** Names the row that the inside belongs to. */
export function KeptPlace({ name, children }: { name: string; children: ReactNode }) {
  const outer = useContext(Place)
  return <Place value={`${outer}/${name}`}>{children}</Place>
}

export function useKept(name: string, initial: boolean): [boolean, (value: boolean) => void] {
  const memory = useContext(Memory)
  const place = useContext(Place)
  const key = `${place}:${name}`
  const [value, setValue] = useState(() => {
    const kept = memory?.get(key)
    return typeof kept === 'boolean' ? kept : initial
  })
  return [
    value,
    (next) => {
      memory?.set(key, next)
      setValue(next)
    },
  ]
}
