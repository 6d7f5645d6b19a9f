import { useEffect, useRef, useState } from 'react'
import { useSearchParams } from 'react-router'
import { FILTERS, type Filter } from './listing'

/** Search and filter of the list. Stored in the URL, so that a view can be bookmarked, shared and navigated back to. */
export interface View {
  readonly query: string
  readonly filter: Filter
}

export function readView(address: URLSearchParams): View {
  const status = address.get('status')
  return { query: address.get('q') ?? '', filter: FILTERS.find((filter) => filter === status) ?? 'all' }
}

/** The search params of a view. Default values are omitted, and other params are kept. */
export function writeView(address: URLSearchParams, view: View): URLSearchParams {
  const next = new URLSearchParams(address)
  if (view.query.trim() === '') next.delete('q')
  else next.set('q', view.query)
  if (view.filter === 'all') next.delete('status')
  else next.set('status', view.filter)
  return next
}

/** Browsers limit the rate of URL changes, so keystrokes are debounced. */
const TYPING_DEBOUNCE_MS = 250

export function useView() {
  const [address, setAddress] = useSearchParams()
  const view = readView(address)
  const [typed, setTyped] = useState(view.query)
  const [seen, setSeen] = useState(view.query)
  const [written, setWritten] = useState(view.query)
  if (view.query !== seen) {
    setSeen(view.query)
    // After navigation the field follows the URL. A URL that this hook wrote is ignored, because the user may have
    // typed more since.
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
    setAddress((current) => writeView(current, next), { replace })
  }
  return {
    /** Reflects typing at once; the URL follows after the debounce. */
    view: { ...view, query: typed },
    type: (query: string) => {
      setTyped(query)
      clearTimeout(timer.current)
      timer.current = setTimeout(() => write({ ...view, query }, true), TYPING_DEBOUNCE_MS)
    },
    /** Writes pending input to the URL when the field loses focus. */
    flush: () => {
      if (timer.current !== undefined) write({ ...view, query: typed }, true)
    },
    choose: (filter: Filter) => write({ query: typed, filter }, false),
    clear: () => {
      setTyped('')
      write({ query: '', filter: 'all' }, false)
    },
  }
}
