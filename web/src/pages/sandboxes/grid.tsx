import { defaultRangeExtractor, useVirtualizer } from '@tanstack/react-virtual'
import { useRef, useState, useSyncExternalStore, type KeyboardEvent } from 'react'
import { flushSync } from 'react-dom'
import type { Action } from './actions'
import { SandboxCard } from './card'
import type { Card } from './listing'
import { CardMenu } from './menu'

/** Estimated row height including the gap, until the row is measured. */
const ROW_PX = 140

/** A virtualized grid of cards. */
export function CardGrid({ cards, act }: { cards: readonly Card[]; act: (action: Action, card: Card) => void }) {
  const scroller = useRef<HTMLDivElement>(null)
  const columns = useColumns()
  const [chosen, setChosen] = useState<string | null>(null)
  const entry = Math.max(
    0,
    cards.findIndex((card) => card.key === chosen),
  )
  const entryRow = Math.floor(entry / columns)
  const rows = useVirtualizer({
    count: Math.ceil(cards.length / columns),
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 4,
    // The card that Tab focuses is always rendered.
    rangeExtractor: (range) => {
      const visible = defaultRangeExtractor(range)
      if (entryRow >= range.count || visible.includes(entryRow)) return visible
      return entryRow < range.startIndex ? [entryRow, ...visible] : [...visible, entryRow]
    },
  })

  const move = (event: KeyboardEvent) => {
    if (!(event.target instanceof HTMLElement) || !event.target.hasAttribute('data-main')) return
    const to = destination(event.key, entry, columns, cards.length)
    const card = to === null ? undefined : cards[to]
    if (card === undefined) return
    event.preventDefault()
    // It must be rendered before it can be focused.
    flushSync(() => setChosen(card.key))
    mainOf(scroller.current, card.key)?.focus()
  }
  const cardAt = (target: EventTarget) => {
    const key = target instanceof Element ? target.closest('[data-card]')?.getAttribute('data-card') : null
    return cards.find((card) => card.key === key) ?? null
  }
  return (
    <div ref={scroller} className="min-h-0 flex-1 overflow-auto px-4 pb-4 sm:px-6">
      <CardMenu cardAt={cardAt} act={act}>
        <div
          role="list"
          aria-label="Sandboxes"
          className="relative mx-auto max-w-7xl"
          style={{ height: rows.getTotalSize() }}
          onKeyDown={move}
        >
          {rows.getVirtualItems().map((row) => (
            <div
              key={row.key}
              ref={rows.measureElement}
              data-index={row.index}
              role="presentation"
              className="absolute inset-x-0 top-0 grid gap-3 pb-3"
              style={{
                transform: `translateY(${row.start}px)`,
                gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))`,
              }}
            >
              {cards.slice(row.index * columns, (row.index + 1) * columns).map((card, index) => (
                <div
                  key={card.key}
                  role="listitem"
                  data-card={card.key}
                  aria-setsize={cards.length}
                  aria-posinset={row.index * columns + index + 1}
                  className="min-w-0"
                  onFocus={() => setChosen(card.key)}
                >
                  <SandboxCard card={card} isEntry={row.index * columns + index === entry} />
                </div>
              ))}
            </div>
          ))}
        </div>
      </CardMenu>
    </div>
  )
}

/** The card that a key moves to, or `null`. */
export function destination(key: string, from: number, columns: number, count: number): number | null {
  const to = {
    ArrowLeft: from - 1,
    ArrowRight: from + 1,
    ArrowUp: from - columns,
    // The last row may be incomplete: from above its empty cells, Down moves to its last card.
    ArrowDown:
      Math.floor(from / columns) < Math.floor((count - 1) / columns) ? Math.min(from + columns, count - 1) : -1,
    Home: 0,
    End: count - 1,
  }[key]
  return to === undefined || to < 0 || to >= count || to === from ? null : to
}

const mainOf = (root: HTMLElement | null, key: string) =>
  root?.querySelector<HTMLElement>(`[data-card="${CSS.escape(key)}"] [data-main]`)

const WIDTHS = ['(min-width: 720px)', '(min-width: 1120px)']

/** One column on phones, up to three on desktops. */
function useColumns(): number {
  return useSyncExternalStore(
    (listener) => {
      const queries = WIDTHS.map((width) => matchMedia(width))
      for (const query of queries) query.addEventListener('change', listener)
      return () => {
        for (const query of queries) query.removeEventListener('change', listener)
      }
    },
    () => 1 + WIDTHS.filter((width) => matchMedia(width).matches).length,
  )
}
