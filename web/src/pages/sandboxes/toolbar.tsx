import { Plus, RefreshCw, Search, X } from 'lucide-react'
import { useEffect, useRef } from 'react'
import { Link } from 'react-router'
import type { LiveHandle } from '../../api/use-live'
import { Button } from '../../ui/button'
import { ConnectionChip } from '../../ui/connection'
import { classes } from '../../util/classes'
import { count } from '../../util/numbers'
import { paths } from '../../util/paths'
import { FILTERS, type Filter } from './listing'

const labels: Record<Filter, { label: string; title: string }> = {
  all: { label: 'All', title: 'All sandboxes' },
  running: { label: 'Running', title: 'The sandbox is starting or its agent is working' },
  validating: { label: 'Validating', title: 'Sent back with feedback for revision' },
  awaiting: { label: 'Awaiting', title: 'Needs approval or review by a person' },
  pending: { label: 'Pending', title: 'Queued, or waiting for dependencies' },
  completed: { label: 'Completed', title: 'Finished successfully' },
  failed: { label: 'Failed', title: 'Failed or cancelled' },
}

export function Title({
  total,
  live,
  isRefreshing,
  onRefresh,
}: {
  total: number | null
  live: LiveHandle
  isRefreshing: boolean
  onRefresh: () => void
}) {
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
      <h1 className="text-lg font-semibold">
        Sandboxes {total !== null && <span className="font-normal text-ink-faint">{count(total)}</span>}
      </h1>
      <ConnectionChip connection={live.connection} detail={live.detail} onRetry={() => live.retry()} />
      <div className="ml-auto flex items-center gap-2">
        <Button onClick={onRefresh} disabled={isRefreshing} aria-label="Refresh">
          <RefreshCw size={14} aria-hidden className={isRefreshing ? 'animate-spin' : undefined} />
          <span className="hidden sm:inline">Refresh</span>
        </Button>
        <Link
          to={paths.command}
          aria-label="New sandbox"
          className="inline-flex min-h-9 items-center gap-1.5 rounded-md bg-accent px-3 text-sm font-medium whitespace-nowrap text-on-accent hover:brightness-110"
        >
          <Plus size={15} aria-hidden /> New <span className="hidden sm:inline">sandbox</span>
        </Link>
      </div>
    </div>
  )
}

/** `/` focuses it from anywhere on the page, Escape clears it. */
export function SearchField({
  value,
  onType,
  onLeave,
}: {
  value: string
  onType: (value: string) => void
  onLeave: () => void
}) {
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || isEditable(event.target)) return
      event.preventDefault()
      field.current?.focus()
      field.current?.select()
    }
    document.addEventListener('keydown', onKeyDown)
    return () => document.removeEventListener('keydown', onKeyDown)
  }, [])
  return (
    <div className="relative w-full sm:max-w-sm">
      <Search size={15} aria-hidden className="absolute top-1/2 left-3 -translate-y-1/2 text-ink-faint" />
      <input
        ref={field}
        type="search"
        aria-label="Search sandboxes"
        aria-keyshortcuts="/"
        placeholder="Search by title, type or ID"
        autoComplete="off"
        spellCheck={false}
        value={value}
        onChange={(event) => onType(event.target.value)}
        onBlur={onLeave}
        onKeyDown={(event) => {
          if (event.key === 'Escape') onType('')
          if (event.key === 'ArrowDown') {
            document.querySelector<HTMLElement>('[data-card] [data-main][tabindex="0"]')?.focus()
            event.preventDefault()
          }
        }}
        className="min-h-9 w-full rounded-md border border-line-strong/60 bg-surface pr-9 pl-9 text-sm placeholder:text-ink-faint [&::-webkit-search-cancel-button]:hidden"
      />
      {value === '' ? (
        <kbd
          aria-hidden
          className="absolute top-1/2 right-2.5 hidden -translate-y-1/2 rounded border border-line px-1.5 font-mono text-xs text-ink-faint sm:block"
        >
          /
        </kbd>
      ) : (
        <button
          type="button"
          aria-label="Clear search"
          onClick={() => {
            onType('')
            field.current?.focus()
          }}
          className="absolute top-1/2 right-1 inline-grid size-7 -translate-y-1/2 place-items-center rounded text-ink-faint hover:text-ink"
        >
          <X size={14} aria-hidden />
        </button>
      )}
    </div>
  )
}

export function Filters({
  chosen,
  numbers,
  onChoose,
}: {
  chosen: Filter
  numbers: Record<Filter, number>
  onChoose: (filter: Filter) => void
}) {
  return (
    <div role="group" aria-label="Status" className="-mx-1 flex gap-1 overflow-x-auto px-1 py-1">
      {FILTERS.map((filter) => (
        <button
          key={filter}
          type="button"
          aria-pressed={filter === chosen}
          title={labels[filter].title}
          onClick={() => onChoose(filter)}
          className={classes(
            'inline-flex min-h-8 shrink-0 items-center gap-1.5 rounded-full border px-3 text-sm',
            filter === chosen
              ? 'border-accent/40 bg-accent-soft font-medium text-accent'
              : 'border-line bg-surface text-ink-soft hover:bg-sunken hover:text-ink',
          )}
        >
          {labels[filter].label} <span className="tabular-nums">{count(numbers[filter])}</span>
        </button>
      ))}
    </div>
  )
}

const isEditable = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
