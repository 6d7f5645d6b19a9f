import { useVirtualizer } from '@tanstack/react-virtual'
import { ChevronDown, ChevronRight } from 'lucide-react'
import { memo, useCallback, useMemo, useRef, useState } from 'react'
import { Link } from 'react-router'
import { Badge, type Tone } from '../../ui/badge'
import { RetainState, RetainedScope, useRetainedState } from '../../ui/retained-state'
import { Empty } from '../../ui/states'
import { classes } from '../../util/classes'
import { count, plural } from '../../util/numbers'
import { paths } from '../../util/paths'
import { timeOfDay } from '../../util/time'
import { RowCard } from '../sandbox/cards/row-card'
import { type Pair, align } from './align'
import { type Step, steps } from './step'
import type { Side } from './use-side'

const matches: Record<Pair<Step>['match'], { tone: Tone; label: string }> = {
  same: { tone: 'quiet', label: 'Same' },
  different: { tone: 'accent', label: 'Different' },
  'only left': { tone: 'warn', label: 'Only left' },
  'only right': { tone: 'warn', label: 'Only right' },
}

/** The steps of both runs, aligned. They form one list, so both sides scroll together. */
export function AlignedSteps({ left, right }: { left: Side; right: Side }) {
  const [onlyDifferences, setOnlyDifferences] = useState(false)
  const pairs = useMemo(
    () => align(steps(left.rows, left.sandboxId), steps(right.rows, right.sandboxId)),
    [left, right],
  )
  const shown = useMemo(
    () => (onlyDifferences ? pairs.filter((pair) => pair.match !== 'same') : pairs),
    [pairs, onlyDifferences],
  )
  const same = pairs.filter((pair) => pair.match === 'same').length
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-1 border-b border-line bg-surface px-3 py-2 text-sm sm:px-4">
        <span role="status" className="text-ink-soft">
          {count(same)} of {plural(pairs.length, 'step')} the same
        </span>
        <label className="flex min-h-8 items-center gap-1.5">
          <input
            type="checkbox"
            checked={onlyDifferences}
            onChange={(event) => setOnlyDifferences(event.target.checked)}
            className="accent-accent"
          />
          Only differences
        </label>
      </div>
      {shown.length === 0 ? (
        <Empty title={pairs.length === 0 ? 'No steps yet' : 'Both runs took the same steps'} />
      ) : (
        <RetainState>
          <PairList pairs={shown} left={left} right={right} />
        </RetainState>
      )}
    </div>
  )
}

function PairList({ pairs, left, right }: { pairs: readonly Pair<Step>[]; left: Side; right: Side }) {
  const scroller = useRef<HTMLDivElement>(null)
  // A stable function: with a new one per render, the virtualizer would look up all heights again.
  const keyOf = useCallback(
    (index: number) => `${pairs[index]?.left?.row.key ?? '-'} ${pairs[index]?.right?.row.key ?? '-'}`,
    [pairs],
  )
  const list = useVirtualizer({
    count: pairs.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 58,
    getItemKey: keyOf,
    overscan: 10,
  })
  return (
    <div
      ref={scroller}
      role="region"
      aria-label="Steps of both runs"
      tabIndex={0}
      className="min-h-0 flex-1 overflow-auto"
    >
      <ol className="relative" style={{ height: list.getTotalSize() }}>
        {list.getVirtualItems().map((item) => {
          const pair = pairs[item.index]
          return (
            pair !== undefined && (
              <li
                key={item.key}
                ref={list.measureElement}
                data-index={item.index}
                aria-setsize={pairs.length}
                aria-posinset={item.index + 1}
                className="absolute inset-x-0 top-0 border-b border-line/70"
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <RetainedScope name={String(item.key)}>
                  <PairLine pair={pair} left={left} right={right} />
                </RetainedScope>
              </li>
            )
          )
        })}
      </ol>
    </div>
  )
}

/** Memoized, because scrolling re-renders the list. */
const PairLine = memo(function PairLine({ pair, left, right }: { pair: Pair<Step>; left: Side; right: Side }) {
  const [open, setOpen] = useRetainedState('steps', false)
  const { tone, label } = matches[pair.match]
  const title = (pair.left ?? pair.right)?.title ?? ''
  return (
    <div className="px-2 py-1.5 sm:px-4">
      <div className="grid grid-cols-[1.75rem_minmax(0,1fr)] items-start gap-x-1 gap-y-1 md:grid-cols-[1.75rem_minmax(0,1fr)_6rem_minmax(0,1fr)]">
        <button
          type="button"
          aria-expanded={open}
          aria-label={`${open ? 'Hide' : 'Show'} step: ${title}, ${label.toLowerCase()}`}
          onClick={() => setOpen(!open)}
          className="inline-grid size-7 place-items-center rounded text-ink-soft hover:bg-sunken"
        >
          {open ? <ChevronDown size={15} aria-hidden /> : <ChevronRight size={15} aria-hidden />}
        </button>
        <div className="col-start-2 row-start-1 min-w-0">
          <Cell name="Left" step={pair.left} side={left} open={open} />
        </div>
        <span className="col-start-2 row-start-1 justify-self-end pt-0.5 md:col-start-3 md:justify-self-center">
          <Badge tone={tone}>{label}</Badge>
        </span>
        <div className="col-start-2 row-start-2 min-w-0 md:col-start-4 md:row-start-1">
          <Cell name="Right" step={pair.right} side={right} open={open} />
        </div>
      </div>
    </div>
  )
})

function Cell({ name, step, side, open }: { name: string; step: Step | null; side: Side; open: boolean }) {
  if (step === null) {
    return (
      <p className="py-1 text-sm text-ink-faint">
        <span className="md:sr-only">{name}: </span>no matching step
      </p>
    )
  }
  return (
    <div className="min-w-0">
      <p className={classes('flex min-w-0 items-baseline gap-2 py-1 text-sm', name === 'Left' && 'pr-24 md:pr-0')}>
        <span className="w-8 shrink-0 text-xs text-ink-faint md:sr-only">{name}</span>
        <span className="max-w-[60%] shrink-0 truncate font-medium">{step.title}</span>
        <span className="min-w-0 flex-1 truncate text-ink-soft" title={step.detail}>
          {step.detail}
        </span>
        <Link
          to={paths.moment(side.sandboxId, step.row.seq)}
          title="Go to this event"
          className="text-xs whitespace-nowrap text-ink-faint tabular-nums hover:text-ink hover:underline"
        >
          {timeOfDay(step.row.at)}
        </Link>
      </p>
      {open && <RowCard row={step.row} sandboxId={side.sandboxId} />}
    </div>
  )
}
