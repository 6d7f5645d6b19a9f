import { type ReactNode, createContext, useContext, useState } from 'react'

/**
 * Keeps what a reader expanded open when its row is scrolled out of view and back: a virtual list unmounts its rows, so
 * their state is stored here. Without a `RetainState` ancestor it is plain component state.
 */
const Memory = createContext<Map<string, unknown> | null>(null)
const Scope = createContext('')

/** Stores the state of all descendants while it is mounted. */
export function RetainState({ children }: { children: ReactNode }) {
  const [memory] = useState(() => new Map<string, unknown>())
  return <Memory value={memory}>{children}</Memory>
}

/** Names the row that the state of its children belongs to. */
export function RetainedScope({ name, children }: { name: string; children: ReactNode }) {
  const outer = useContext(Scope)
  return <Scope value={`${outer}/${name}`}>{children}</Scope>
}

export function useRetainedState(name: string, initial: boolean): [boolean, (value: boolean) => void] {
  const memory = useContext(Memory)
  const scope = useContext(Scope)
  const key = `${scope}:${name}`
  const [value, setValue] = useState(() => {
    const stored = memory?.get(key)
    return typeof stored === 'boolean' ? stored : initial
  })
  return [
    value,
    (next) => {
      memory?.set(key, next)
      setValue(next)
    },
  ]
}
