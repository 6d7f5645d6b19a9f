import { useVirtualizer } from '@tanstack/react-virtual'
import { CircleX, Search } from 'lucide-react'
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from 'react'
import { plainText } from '../../../ui/ansi'
import { Button } from '../../../ui/button'
import { Keep, KeptPlace } from '../../../ui/kept'
import { Empty } from '../../../ui/states'
import { count, plural } from '../../../util/numbers'
import { type ShownCommand, commandList, hasFailed } from './command-list'
import { TerminalEntry } from './terminal-entry'
import { type Log, WholeRunProgress, useWholeRun } from './whole-run'

/** Every command that the agent ran and what came of it, as one long terminal. */
export default function TerminalTab({ sandboxId, log }: { sandboxId: string; log: Log }) {
  useWholeRun(log)
  const [search, setSearch] = useState('')
  const [onlyFailed, setOnlyFailed] = useState(false)
  const looked = useDeferredValue(search)
  const commands = log.run.commands
  const shown = useMemo(() => commandList(commands, looked, onlyFailed, plainText), [commands, looked, onlyFailed])
  const failed = useMemo(() => commands.filter(hasFailed).length, [commands])
  return (
    <div className="flex h-full min-h-0 flex-col">
      <WholeRunProgress log={log} />
      {commands.length === 0 ? (
        <Empty title={log.whole ? 'No command was run' : 'No command was run so far'}>
          Commands that the agent runs, and what they print, are shown here.
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
            <Button aria-pressed={onlyFailed} disabled={failed === 0 && !onlyFailed} onClick={() => setOnlyFailed(!onlyFailed)} className="aria-pressed:border-bad/50 aria-pressed:bg-bad-soft aria-pressed:text-bad">
              <CircleX size={15} aria-hidden /> Only failed ({count(failed)})
            </Button>
            <span role="status" className="text-sm text-ink-soft">
              {shown.length === commands.length ? plural(commands.length, 'command') : `${count(shown.length)} of ${plural(commands.length, 'command')}`}
            </span>
          </div>
          {shown.length === 0 ? (
            <Empty title="No command is like that">
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
            <Keep>
              <Commands sandboxId={sandboxId} shown={shown} />
            </Keep>
          )}
        </>
      )}
    </div>
  )
}

/** Nearer to the end than this, the reader wants to see what comes. */
const NEAR_PX = 60

function Commands({ sandboxId, shown }: { sandboxId: string; shown: readonly ShownCommand[] }) {
  const scroller = useRef<HTMLDivElement>(null)
  const atEnd = useRef(true)
  // With another function at each turn all heights would be looked up anew.
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
              <KeptPlace name={String(each.command.seq)}>
                <TerminalEntry sandboxId={sandboxId} shown={each} />
              </KeptPlace>
            </li>
          )
        })}
      </ol>
    </div>
  )
}
