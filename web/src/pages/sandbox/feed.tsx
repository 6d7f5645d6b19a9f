import { type VirtualItem, type Virtualizer, useVirtualizer } from '@tanstack/react-virtual'
import { ArrowDown, CircleAlert, Link2 } from 'lucide-react'
import { type KeyboardEvent, memo, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { Link } from 'react-router'
import type { Log } from '../../api/use-log'
import type { Row } from '../../timeline/rows'
import { Button } from '../../ui/button'
import { RetainState } from '../../ui/retained-state'
import { Spinner } from '../../ui/spinner'
import { Empty, Failed, Loading } from '../../ui/states'
import { count } from '../../util/numbers'
import { paths } from '../../util/paths'
import { timeOfDay } from '../../util/time'
import { RowCard } from './cards/row-card'
import { PartialCard } from './cards/messages'
import { announcement, countAfter, estimate, isError, nameOf, nextError } from './feed-rows'
import { type Scroll, pinnedAfter } from './scroll-pinning'

/** The events of a sandbox, newest at the bottom. */
export function Feed({ sandboxId, log }: { sandboxId: string; log: Log }) {
  if (log.state === 'loading') return <Loading what="events" />
  if (log.state === 'failed') return <Failed error={log.error} onRetry={log.retry} />
  if (log.timeline.rows.length === 0 && log.partial === null && !log.hasOlder) {
    return <Empty title="No events yet">Events appear here as soon as the agent starts working.</Empty>
  }
  return (
    <RetainState>
      <Rows sandboxId={sandboxId} log={log} />
    </RetainState>
  )
}

/** Rows rendered beyond the visible range, on each side. */
const OVERSCAN = 8
/** Older rows are fetched when fewer than this remain above. */
const PREFETCH_ROWS = 25
/** Space for the status above the first row. */
const TOP_PX = 48
/** Scrolling within this time after user input counts as caused by the user. */
const INPUT_WINDOW_MS = 400
const PARTIAL_KEY = 'partial'

function Rows({ sandboxId, log }: { sandboxId: string; log: Log }) {
  const { partial, hasOlder, loadingOlder, olderError, loadOlder } = log
  const rows = log.timeline.rows
  const total = rows.length + (partial === null ? 0 : 1)
  const element = useRef<HTMLDivElement>(null)
  const scroll = useRef<Scroll>({ top: 0, height: 0, view: 0 })
  /** Until when scrolling counts as caused by the user. */
  const inputUntil = useRef(0)
  const [pinned, setPinned] = useState(true)
  /** The newest event when the user scrolled away from the end. */
  const [seen, setSeen] = useState(0)

  const keyAt = useCallback((index: number) => rows[index]?.key ?? PARTIAL_KEY, [rows])
  const sizeAt = useCallback(
    (index: number) => {
      const row = rows[index]
      return row === undefined ? 80 : estimate(row)
    },
    [rows],
  )
  const list = useVirtualizer({
    count: total,
    getScrollElement: () => element.current,
    estimateSize: sizeAt,
    getItemKey: keyAt,
    overscan: OVERSCAN,
    paddingStart: TOP_PX,
    paddingEnd: 16,
    // Rows that are added or grow above the viewport must not move the visible rows.
    anchorTo: 'end',
    // Start at the end.
    initialOffset: Number.MAX_SAFE_INTEGER,
    directDomUpdates: true,
    // A compositor layer per row would cost more than it saves: rows do not move relative to each other.
    directDomUpdatesMode: 'position',
  })
  const shown = list.getVirtualItems()
  useLayoutEffect(() => {
    list.shouldAdjustScrollPositionOnItemSizeChange = growsAbove
  }, [list])

  // Follow the end while pinned.
  useLayoutEffect(() => {
    if (pinned) list.scrollToEnd()
  }, [pinned, list, rows, partial])
  useEffect(() => {
    const box = element.current
    if (!pinned || box === null || typeof ResizeObserver === 'undefined') return
    const observer = new ResizeObserver(() => list.scrollToEnd())
    observer.observe(box)
    return () => observer.disconnect()
  }, [pinned, list])

  const isNearTop = (shown[0]?.index ?? 0) < PREFETCH_ROWS
  const fetchesOlder = isNearTop && hasOlder && !loadingOlder && olderError === null
  useEffect(() => {
    if (fetchesOlder) loadOlder()
  }, [fetchesOlder, loadOlder, rows])

  const newest = rows.at(-1)?.seq ?? 0
  const onScroll = (box: HTMLElement) => {
    const position = { top: box.scrollTop, height: box.scrollHeight, view: box.clientHeight }
    const nextPinned = pinnedAfter(pinned, scroll.current, position, performance.now() < inputUntil.current)
    scroll.current = position
    if (nextPinned === pinned) return
    setPinned(nextPinned)
    if (!nextPinned) setSeen(newest)
  }
  const markInput = (forMs = INPUT_WINDOW_MS) => {
    inputUntil.current = performance.now() + forMs
  }
  const goTo = (index: number, align: 'auto' | 'center' = 'auto') => {
    setPinned(false)
    setSeen(newest)
    list.scrollToIndex(index, { align })
    focusRow(element.current, index)
  }
  const toEnd = () => {
    setPinned(true)
    list.scrollToEnd()
  }
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    markInput()
    const focused = focusedIndex(event)
    if (focused === null) return
    const first = list.range?.startIndex ?? 0
    switch (event.key) {
      case 'j':
      case 'ArrowDown':
        goTo(Math.min(rows.length - 1, focused === -1 ? first : focused + 1))
        break
      case 'k':
      case 'ArrowUp':
        goTo(Math.max(0, focused === -1 ? Math.min(rows.length - 1, list.range?.endIndex ?? 0) : focused - 1))
        break
      case 'Home':
        goTo(0)
        break
      case 'End':
        toEnd()
        break
      case 'e': {
        const index = nextError(rows, focused === -1 ? first : focused)
        if (index >= 0) goTo(index, 'center')
        break
      }
      default:
        return
    }
    event.preventDefault()
  }

  const newRows = pinned ? 0 : countAfter(rows, seen)
  const hasError = useMemo(() => rows.some(isError), [rows])
  return (
    <div className="relative h-full min-h-0">
      <div
        ref={element}
        role="feed"
        aria-label="Events"
        aria-busy={loadingOlder}
        tabIndex={0}
        className="h-full overflow-y-auto [overflow-anchor:none] focus-visible:-outline-offset-2"
        onScroll={(event) => onScroll(event.currentTarget)}
        onWheel={() => markInput()}
        onTouchMove={() => markInput(2_000)}
        // Dragging the scrollbar counts as input until the pointer is released.
        onPointerDown={() => markInput(60_000)}
        onPointerUp={() => markInput()}
        onPointerCancel={() => markInput()}
        onKeyDown={onKeyDown}
      >
        <div ref={list.containerRef} className="relative w-full">
          <Top log={log} />
          {shown.map(({ index, key }) => (
            <div key={key} ref={list.measureElement} data-index={index} className="absolute top-0 left-0 w-full">
              <FeedRow
                row={rows[index]}
                index={index}
                total={hasOlder ? -1 : total}
                sandboxId={sandboxId}
                partial={rows[index] === undefined ? partial : null}
              />
            </div>
          ))}
        </div>
      </div>
      <p role="status" className="sr-only">
        {announcement(rows)}
      </p>
      <div className="pointer-events-none absolute inset-x-0 bottom-3 flex justify-center gap-2">
        {!pinned && (
          <Button className="pointer-events-auto rounded-full shadow-md" onClick={toEnd}>
            <ArrowDown size={14} aria-hidden />
            {newRows > 0 ? `${count(newRows)} new` : 'Newest'}
          </Button>
        )}
        {!pinned && hasError && (
          <Button
            className="pointer-events-auto rounded-full shadow-md"
            title="Next error (e)"
            onClick={() => {
              const index = nextError(rows, focusedRow(element.current) ?? list.range?.startIndex ?? 0)
              if (index >= 0) goTo(index, 'center')
            }}
          >
            <CircleAlert size={14} aria-hidden className="text-bad" />
            Next error
          </Button>
        )}
      </div>
    </div>
  )
}

/**
 * Whether a row that changed its height is above the viewport, so that the scroll position must be adjusted. By default
 * the list lets rows grow into the viewport while the user scrolls up, for example when a lazy viewer has loaded.
 */
function growsAbove(item: VirtualItem, _delta: number, list: Virtualizer<HTMLDivElement, Element>): boolean {
  const top = list.scrollOffset ?? 0
  return list.itemSizeCache.has(item.key) ? item.end <= top : item.start < top
}

/** The status above the first row. */
function Top({ log }: { log: Log }) {
  return (
    <div className="absolute inset-x-0 top-0 flex h-12 items-center justify-center gap-2 text-xs text-ink-soft">
      {log.olderError !== null && !log.loadingOlder ? (
        <>
          <span role="alert">Older events could not be loaded.</span>
          <button type="button" onClick={log.loadOlder} className="font-medium text-accent hover:underline">
            Try again
          </button>
        </>
      ) : log.hasOlder ? (
        <>
          <Spinner size={12} /> Loading older events…
        </>
      ) : (
        'Start of run'
      )}
    </div>
  )
}

/** A row with its card, its time and a link to it. */
const FeedRow = memo(function FeedRow({
  row,
  index,
  total,
  sandboxId,
  partial,
}: {
  row: Row | undefined
  index: number
  total: number
  sandboxId: string
  partial: Log['partial']
}) {
  if (row === undefined) {
    // Not an article: screen readers announce the finished text, not every piece.
    return (
      <div className={COLUMN}>
        {partial !== null && <PartialCard text={partial.text} thinking={partial.thinking} />}
      </div>
    )
  }
  return (
    <article
      aria-label={nameOf(row)}
      aria-posinset={index + 1}
      aria-setsize={total}
      tabIndex={-1}
      data-row={index}
      className={`group/row ${COLUMN}`}
    >
      <RowCard row={row} sandboxId={sandboxId} />
      <Link
        to={paths.moment(sandboxId, row.seq)}
        aria-label={`Link to this event, ${timeOfDay(row.at)}`}
        title="Link to this event"
        className="absolute -top-1.5 right-4 z-10 flex items-center gap-1 rounded bg-page px-1 py-0.5 text-xs text-ink-soft tabular-nums opacity-0 group-focus-within/row:opacity-100 group-hover/row:opacity-100 hover:text-accent focus-visible:opacity-100 xl:top-2.5 xl:right-auto xl:-left-20"
      >
        {timeOfDay(row.at)}
        <Link2 size={12} aria-hidden />
      </Link>
    </article>
  )
})

const COLUMN = 'relative mx-auto max-w-4xl px-3 py-1 sm:px-6 focus-visible:outline-2 focus-visible:-outline-offset-2'

/** Index of the focused row: -1 for the list itself, `null` if the key is not for the feed. */
function focusedIndex({ target, currentTarget, ctrlKey, metaKey, altKey }: KeyboardEvent): number | null {
  if (ctrlKey || metaKey || altKey || !(target instanceof HTMLElement)) return null
  if (target === currentTarget) return -1
  const row = target.dataset['row']
  return row === undefined ? null : Number(row)
}

const focusedRow = (feed: HTMLElement | null): number | null => {
  const row =
    feed?.contains(document.activeElement) === true ? document.activeElement?.closest<HTMLElement>('[data-row]') : null
  return row?.dataset['row'] === undefined ? null : Number(row.dataset['row'])
}

/** The row is rendered only after it was scrolled to, so retry for a few frames. */
function focusRow(feed: HTMLElement | null, index: number, attempts = 10) {
  const row = feed?.querySelector<HTMLElement>(`[data-row="${index}"]`)
  if (row instanceof HTMLElement) row.focus({ preventScroll: true })
  else if (attempts > 0) requestAnimationFrame(() => focusRow(feed, index, attempts - 1))
}
