import { type VirtualItem, type Virtualizer, useVirtualizer } from '@tanstack/react-virtual'
import { ArrowDown, CircleAlert, Link2 } from 'lucide-react'
import { type KeyboardEvent, memo, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { Link } from 'react-router'
import type { Log } from '../../api/use-log'
import type { Row } from '../../timeline/rows'
import { Button } from '../../ui/button'
import { Keep } from '../../ui/kept'
import { Spinner } from '../../ui/spinner'
import { Empty, Failed, Loading } from '../../ui/states'
import { count } from '../../util/numbers'
import { paths } from '../../util/paths'
import { timeOfDay } from '../../util/time'
import { RowCard } from './cards/row-card'
import { PartialCard } from './cards/speech'
import { announcement, countAfter, estimate, isTrouble, nameOf, nextTrouble } from './feed-rows'
import { type Scroll, pinnedAfter } from './pinning'

/** Everything that happened, the newest at the bottom. */
export function Feed({ sandboxId, log }: { sandboxId: string; log: Log }) {
  if (log.state === 'loading') return <Loading what="the events" />
  if (log.state === 'failed') return <Failed error={log.error} onRetry={log.retry} />
  if (log.timeline.rows.length === 0 && log.partial === null && !log.hasOlder) {
    return <Empty title="Nothing has happened yet">What the agent does will be shown here as soon as it is told.</Empty>
  }
  return (
    <Keep>
      <Rows sandboxId={sandboxId} log={log} />
    </Keep>
  )
}

/** Rows that are rendered beyond what is seen, on each side. */
const OVERSCAN = 8
/** Older rows are fetched when so many are left above. */
const EARLY = 25
/** A place for what stands above the first row. */
const TOP_PX = 48
/** So long after a wheel or a key a move counts as the reader's. */
const HANDS_MS = 400
const PARTIAL_KEY = 'partial'

function Rows({ sandboxId, log }: { sandboxId: string; log: Log }) {
  const { partial, hasOlder, loadingOlder, olderError, loadOlder } = log
  const rows = log.timeline.rows
  const total = rows.length + (partial === null ? 0 : 1)
  const element = useRef<HTMLDivElement>(null)
  const scroll = useRef<Scroll>({ top: 0, height: 0, view: 0 })
  /** Until when whatever moves is moved by the reader. */
  const handsUntil = useRef(0)
  const [pinned, setPinned] = useState(true)
  /** The last event that was there when the reader let go of the end. */
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
    // Older rows above and rows that grow above move nothing that is read.
    anchorTo: 'end',
    // Begins at the end, wherever that will be.
    initialOffset: Number.MAX_SAFE_INTEGER,
    directDomUpdates: true,
    // A layer for each row would cost more than it saves: rows do not move against each other.
    directDomUpdatesMode: 'position',
  })
  const shown = list.getVirtualItems()
  useLayoutEffect(() => {
    list.shouldAdjustScrollPositionOnItemSizeChange = growsAbove
  }, [list])

  // The end moved, and the reader wants to stay there.
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

  const isNearTop = (shown[0]?.index ?? 0) < EARLY
  const fetchesOlder = isNearTop && hasOlder && !loadingOlder && olderError === null
  useEffect(() => {
    if (fetchesOlder) loadOlder()
  }, [fetchesOlder, loadOlder, rows])

  const newest = rows.at(-1)?.seq ?? 0
  const moved = (box: HTMLElement) => {
    const now = { top: box.scrollTop, height: box.scrollHeight, view: box.clientHeight }
    const stays = pinnedAfter(pinned, scroll.current, now, performance.now() < handsUntil.current)
    scroll.current = now
    if (stays === pinned) return
    setPinned(stays)
    if (!stays) setSeen(newest)
  }
  const hands = (forMs = HANDS_MS) => {
    handsUntil.current = performance.now() + forMs
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
    hands()
    const place = rowPlace(event)
    if (place === null) return
    const first = list.range?.startIndex ?? 0
    switch (event.key) {
      case 'j':
      case 'ArrowDown':
        goTo(Math.min(rows.length - 1, place === -1 ? first : place + 1))
        break
      case 'k':
      case 'ArrowUp':
        goTo(Math.max(0, place === -1 ? Math.min(rows.length - 1, list.range?.endIndex ?? 0) : place - 1))
        break
      case 'Home':
        goTo(0)
        break
      case 'End':
        toEnd()
        break
      case 'e': {
        const index = nextTrouble(rows, place === -1 ? first : place)
        if (index >= 0) goTo(index, 'center')
        break
      }
      default:
        return
    }
    event.preventDefault()
  }

  const fresh = pinned ? 0 : countAfter(rows, seen)
  const hasTrouble = useMemo(() => rows.some(isTrouble), [rows])
  return (
    <div className="relative h-full min-h-0">
      <div
        ref={element}
        role="feed"
        aria-label="Events"
        aria-busy={loadingOlder}
        tabIndex={0}
        className="h-full overflow-y-auto [overflow-anchor:none] focus-visible:-outline-offset-2"
        onScroll={(event) => moved(event.currentTarget)}
        onWheel={() => hands()}
        onTouchMove={() => hands(2_000)}
        // The scrollbar is held until it is let go.
        onPointerDown={() => hands(60_000)}
        onPointerUp={() => hands()}
        onPointerCancel={() => hands()}
        onKeyDown={onKeyDown}
      >
        <div ref={list.containerRef} className="relative w-full">
          <Top log={log} />
          {shown.map(({ index, key }) => (
            <div key={key} ref={list.measureElement} data-index={index} className="absolute top-0 left-0 w-full">
              <Place row={rows[index]} index={index} total={hasOlder ? -1 : total} sandboxId={sandboxId} partial={rows[index] === undefined ? partial : null} />
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
            {fresh > 0 ? `${count(fresh)} new` : 'Newest'}
          </Button>
        )}
        {!pinned && hasTrouble && (
          <Button
            className="pointer-events-auto rounded-full shadow-md"
            title="Next error (e)"
            onClick={() => {
              const index = nextTrouble(rows, focusedRow(element.current) ?? list.range?.startIndex ?? 0)
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
 * Whether a row that turns out taller or smaller is above what is read, which then has to be moved with it. Left to
 * itself the list lets rows grow into the view of who scrolls up, as they do when a viewer for them has been loaded.
 */
function growsAbove(item: VirtualItem, _delta: number, list: Virtualizer<HTMLDivElement, Element>): boolean {
  const top = list.scrollOffset ?? 0
  return list.itemSizeCache.has(item.key) ? item.end <= top : item.start < top
}

/** What stands above the first row. */
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
        'Beginning of the run'
      )}
    </div>
  )
}

/** A row in its place: its card, when it was, and a link to that moment. */
const Place = memo(function Place({
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
    // Read out when it is finished, not letter by letter.
    return <div className={COLUMN}>{partial !== null && <PartialCard text={partial.text} thinking={partial.thinking} />}</div>
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
        aria-label={`Link to this moment, ${timeOfDay(row.at)}`}
        title="Link to this moment"
        className="absolute -top-1.5 right-4 z-10 flex items-center gap-1 rounded bg-page px-1 py-0.5 text-xs text-ink-soft tabular-nums opacity-0 group-focus-within/row:opacity-100 group-hover/row:opacity-100 hover:text-accent focus-visible:opacity-100 xl:top-2.5 xl:right-auto xl:-left-20"
      >
        {timeOfDay(row.at)}
        <Link2 size={12} aria-hidden />
      </Link>
    </article>
  )
})

const COLUMN = 'relative mx-auto max-w-4xl px-3 py-1 sm:px-6 focus-visible:outline-2 focus-visible:-outline-offset-2'

/** Which row has the focus: -1 for the list itself, `null` where a key means something else. */
function rowPlace({ target, currentTarget, ctrlKey, metaKey, altKey }: KeyboardEvent): number | null {
  if (ctrlKey || metaKey || altKey || !(target instanceof HTMLElement)) return null
  if (target === currentTarget) return -1
  const row = target.dataset['row']
  return row === undefined ? null : Number(row)
}

const focusedRow = (feed: HTMLElement | null): number | null => {
  const row = feed?.contains(document.activeElement) === true ? document.activeElement?.closest<HTMLElement>('[data-row]') : null
  return row?.dataset['row'] === undefined ? null : Number(row.dataset['row'])
}

/** The row may not be there yet: it is rendered when it has been scrolled to. */
function focusRow(feed: HTMLElement | null, index: number, tries = 10) {
  const row = feed?.querySelector<HTMLElement>(`[data-row="${index}"]`)
  if (row instanceof HTMLElement) row.focus({ preventScroll: true })
  else if (tries > 0) requestAnimationFrame(() => focusRow(feed, index, tries - 1))
}

