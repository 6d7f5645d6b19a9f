import { useVirtualizer } from '@tanstack/react-virtual'
import { CircleX, Search } from 'lucide-react'
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from 'react'
import { plainText } from '../../../ui/ansi'
import { Button } from '../../../ui/button'
import { RetainState, RetainedScope } from '../../../ui/retained-state'
import { Empty } from '../../../ui/states'
import { count, plural } from '../../../util/numbers'
import { type ShownCommand, commandList, hasFailed } from './command-list'
import { TerminalEntry } from './terminal-entry'
import { type Log, CompleteRunProgress, useCompleteRun } from './complete-run'

/** Every command of the agent with its output, as one long terminal. */
export default function TerminalTab({ sandboxId, log }: { sandboxId: string; log: Log }) {
  useCompleteRun(log)
  const [search, setSearch] = useState('')
  const [onlyFailed, setOnlyFailed] = useState(false)
  const deferredSearch = useDeferredValue(search)
  const commands = log.run.commands
  const shown = useMemo(
    () => commandList(commands, deferredSearch, onlyFailed, plainText),
    [commands, deferredSearch, onlyFailed],
  )
  const failed = useMemo(() => commands.filter(hasFailed).length, [commands])
  return (
    <div className="flex h-full min-h-0 flex-col">
      <CompleteRunProgress log={log} />
      {commands.length === 0 ? (
        <Empty title={log.complete ? 'No commands' : 'No commands yet'}>
          Commands that the agent runs and their output are shown here.
        </Empty>
      ) : (
        <>
          <div className="flex flex-wrap items-center gap-2 border-b border-line bg-surface px-3 py-2">
            <label className="flex min-w-40 flex-1 items-center gap-2 rounded-md border border-line-strong/60 bg-page px-2 sm:max-w-sm">
              <Search size={14} aria-hidden className="text-ink-faint" />
              <span className="sr-only">Search commands and output</span>
              <input
                type="search"
                value={search}
                placeholder="Search commands and output"
                onChange={(event) => setSearch(event.target.value)}
                className="min-h-9 w-full bg-transparent text-sm outline-none placeholder:text-ink-faint"
              />
            </label>
            <Button
              aria-pressed={onlyFailed}
              disabled={failed === 0 && !onlyFailed}
              onClick={() => setOnlyFailed(!onlyFailed)}
              className="aria-pressed:border-bad/50 aria-pressed:bg-bad-soft aria-pressed:text-bad"
            >
              <CircleX size={15} aria-hidden /> Only failed ({count(failed)})
            </Button>
            <span role="status" className="text-sm text-ink-soft">
              {shown.length === commands.length
                ? plural(commands.length, 'command')
                : `${count(shown.length)} of ${plural(commands.length, 'command')}`}
            </span>
          </div>
          {shown.length === 0 ? (
            <Empty title="No matching commands">
              <Button
                onClick={() => {
                  setSearch('')
                  setOnlyFailed(false)
                }}
              >
                Show all commands
              </Button>
            </Empty>
          ) : (
            <RetainState>
              <Commands sandboxId={sandboxId} shown={shown} />
            </RetainState>
          )}
        </>
      )}
    </div>
  )
}

/** Closer to the end than this, the list follows new output. */
const NEAR_PX = 60

function Commands({ sandboxId, shown }: { sandboxId: string; shown: readonly ShownCommand[] }) {
  const scroller = useRef<HTMLDivElement>(null)
  const atEnd = useRef(true)
  // A stable function: with a new one per render, the virtualizer would look up all heights again.
  const keyOf = useCallback((index: number) => shown[index]?.command.seq ?? index, [shown])
  const entries = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => 64 + 20 * Math.min(12, shown[index]?.command.output?.split('\n', 12).length ?? 0),
    getItemKey: keyOf,
    overscan: 4,
  })
  const total = entries.getTotalSize()
  useEffect(() => {
    if (atEnd.current) scroller.current?.scrollTo({ top: total })
  }, [total])
  return (
    <div
      ref={scroller}
      role="region"
      aria-label="Commands and output"
      tabIndex={0}
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        atEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_PX
      }}
      className="min-h-0 flex-1 overflow-auto bg-sunken"
    >
      <ol className="relative" style={{ height: total }}>
        {entries.getVirtualItems().map((entry) => {
          const each = shown[entry.index]
          if (each === undefined) return null
          return (
            <li
              key={entry.key}
              ref={entries.measureElement}
              data-index={entry.index}
              aria-setsize={shown.length}
              aria-posinset={entry.index + 1}
              className="absolute inset-x-0 top-0 border-b border-line"
              style={{ transform: `translateY(${entry.start}px)` }}
            >
              <RetainedScope name={String(each.command.seq)}>
                <TerminalEntry sandboxId={sandboxId} shown={each} />
              </RetainedScope>
            </li>
          )
        })}
      </ol>
    </div>
  )
}
