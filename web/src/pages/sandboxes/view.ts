import { useEffect, useRef, useState } from 'react'
import { useSearchParams } from 'react-router'
import { FILTERS, type Filter } from './listing'

/** What of the list is shown. It stands in the address, so that it can be kept, sent and gone back to. */
export interface View {
  readonly query: string
  readonly filter: Filter
}

export function readView(address: URLSearchParams): View {
  const status = address.get('status')
  return { query: address.get('q') ?? '', filter: FILTERS.find((filter) => filter === status) ?? 'all' }
}

/** The address of a view. What is as usual is not in it, and what is not ours stays. */
export function writeView(address: URLSearchParams, view: View): URLSearchParams {
  const next = new URLSearchParams(address)
  if (view.query.trim() === '') next.delete('q')
  else next.set('q', view.query)
  if (view.filter === 'all') next.delete('status')
  else next.set('status', view.filter)
  return next
}

/** Each keystroke would be a change of address, and browsers limit how many of those there may be. */
const TYPING_MS = 250

export function useView() {
  const [address, setAddress] = useSearchParams()
  const view = readView(address)
  const [typed, setTyped] = useState(view.query)
  const [seen, setSeen] = useState(view.query)
  const [written, setWritten] = useState(view.query)
  if (view.query !== seen) {
    setSeen(view.query)
    // Somebody went back, or followed a link: the field follows the address. What was written here is followed by
    // nothing: whoever types may be further by now.
    if (view.query !== written) {
      setWritten(view.query)
      setTyped(view.query)
    }
  }
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])

  const write = (next: View, replace: boolean) => {
    clearTimeout(timer.current)
    timer.current = undefined
    setWritten(readView(writeView(address, next)).query)
    setAddress((now) => writeView(now, next), { replace })
  }
  return {
    /** As typed: the list follows at once, the address a little later. */
    view: { ...view, query: typed },
    type: (query: string) => {
      setTyped(query)
      clearTimeout(timer.current)
      timer.current = setTimeout(() => write({ ...view, query }, true), TYPING_MS)
    },
    /** Writes what was typed before the reader leaves the field, perhaps for another page. */
    settle: () => {
      if (timer.current !== undefined) write({ ...view, query: typed }, true)
    },
    choose: (filter: Filter) => write({ query: typed, filter }, false),
    clear: () => {
      setTyped('')
      write({ query: '', filter: 'all' }, false)
    },
  }
}
