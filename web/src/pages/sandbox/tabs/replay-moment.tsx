import { CircleCheck, CircleDashed, CircleDot } from 'lucide-react'
import { memo, useLayoutEffect, useRef, useState } from 'react'
import type { Moment } from '../../../replay/moment'
import type { PlanItem } from '../../../timeline/rows'
import type { FileState, Run } from '../../../timeline/run'
import { Lines } from '../../../ui/diff'
import { RetainState } from '../../../ui/retained-state'
import { classes } from '../../../util/classes'
import { count, dollars, plural } from '../../../util/numbers'
import { RowCard } from '../cards/row-card'
import { Fact, FactList, Section } from './fact-list'
import { ChangeDiff } from './file-changes'
import { FileStatus } from './file-status'

/** Rows shown when paused, and while moving: about a screenful. */
const ROWS = 200
const ROWS_WHILE_MOVING = 20

/** The feed up to the current event. */
export function MomentRows({
  sandboxId,
  moment,
  seq,
  isPaused,
}: {
  sandboxId: string
  moment: Moment
  seq: number
  isPaused: boolean
}) {
  const scroller = useRef<HTMLDivElement>(null)
  const rows = moment.timeline.rows
  const shown = rows.slice(isPaused ? -ROWS : -ROWS_WHILE_MOVING)
  useLayoutEffect(() => {
    scroller.current?.scrollTo({ top: 0 })
  }, [moment])
  return (
    <div
      ref={scroller}
      role="region"
      aria-label="Events up to this point"
      tabIndex={0}
      className="flex h-[50vh] min-h-0 flex-col-reverse overflow-auto lg:h-auto lg:flex-1"
    >
      {/* The reversed column scrolls from its end, so it stays there when a diff grows while it renders. */}
      <div className="mb-auto">
        {isPaused && rows.length > shown.length && (
          <p className="px-4 pt-3 text-center text-xs text-ink-faint">
            {count(rows.length - shown.length)} earlier rows not shown.
          </p>
        )}
        {rows.length === 0 && <p className="px-4 py-10 text-center text-ink-soft">No events yet at this point.</p>}
        <RetainState>
          <ol className="flex flex-col gap-2 p-3 sm:p-4">
            {shown.map((row) => (
              <li
                key={row.key}
                aria-current={row.lastSeq === seq ? 'step' : undefined}
                className={classes(
                  'min-w-0 rounded-lg',
                  row.lastSeq === seq && 'outline-2 outline-offset-4 outline-accent/60',
                )}
              >
                <RowCard row={row} sandboxId={sandboxId} />
              </li>
            ))}
          </ol>
        </RetainState>
      </div>
    </div>
  )
}

/** Cost, plan and files as of the current event. */
export const MomentFacts = memo(function MomentFacts({ sandboxId, run }: { sandboxId: string; run: Run }) {
  return (
    <div className="flex flex-col gap-3 p-3 sm:p-4">
      <Section title="At this point">
        <FactList>
          <Fact name="Turn">{count(run.turns)}</Fact>
          <Fact name="Cost">{dollars(run.costUsd)}</Fact>
          <Fact name="Input tokens">{count(run.inputTokens)}</Fact>
          <Fact name="Output tokens">{count(run.outputTokens)}</Fact>
          <Fact name="Tool calls">{count(run.counts.toolUses)}</Fact>
          <Fact name="Errors">{count(run.counts.errors)}</Fact>
        </FactList>
      </Section>
      {run.plan.length > 0 && (
        <Section title="Plan">
          <ul className="flex flex-col gap-1 text-sm">
            {run.plan.map((item, index) => (
              <PlanLine key={index} item={item} />
            ))}
          </ul>
        </Section>
      )}
      <MomentFiles sandboxId={sandboxId} files={run.files} />
    </div>
  )
})

const planStyles: Record<PlanItem['status'], { Icon: typeof CircleCheck; colour: string; label: string }> = {
  completed: { Icon: CircleCheck, colour: 'text-good', label: 'Done' },
  in_progress: { Icon: CircleDot, colour: 'text-info', label: 'In progress' },
  pending: { Icon: CircleDashed, colour: 'text-ink-faint', label: 'To do' },
}

function PlanLine({ item }: { item: PlanItem }) {
  const { Icon, colour, label } = planStyles[item.status]
  return (
    <li className="flex items-start gap-2">
      <Icon size={15} aria-hidden className={classes('mt-0.5 shrink-0', colour)} />
      <span className="sr-only">{label}:</span>
      <span className={classes('min-w-0', item.status === 'completed' && 'text-ink-soft line-through')}>
        {item.text}
      </span>
    </li>
  )
}

const MAX_FILES = 50

function MomentFiles({ sandboxId, files }: { sandboxId: string; files: readonly FileState[] }) {
  const [chosen, setChosen] = useState<string | null>(null)
  // By default, show the file that changed last.
  const latestFirst = files.toSorted((left, right) => lastSeq(right) - lastSeq(left))
  const file = files.find((each) => each.path === chosen) ?? latestFirst[0]
  const change = file?.changes.at(-1)
  return (
    <Section title={`Files (${count(files.length)})`}>
      {files.length === 0 && <p className="text-sm text-ink-soft">No files changed yet.</p>}
      <ul className="max-h-56 overflow-auto">
        {latestFirst.slice(0, MAX_FILES).map((each) => (
          <li key={each.path}>
            <button
              type="button"
              aria-pressed={each.path === file?.path}
              onClick={() => setChosen(each.path)}
              className="flex min-h-8 w-full items-center gap-2 rounded px-1.5 text-left hover:bg-sunken aria-pressed:bg-accent-soft"
            >
              <FileStatus change={each.status} />
              <span className="min-w-0 flex-1 truncate font-mono text-xs" title={each.path}>
                {each.path}
              </span>
              <Lines added={each.added} removed={each.removed} />
            </button>
          </li>
        ))}
      </ul>
      {files.length > MAX_FILES && (
        <p className="mt-1 text-xs text-ink-faint">{plural(files.length - MAX_FILES, 'earlier file')} not shown.</p>
      )}
      {file !== undefined && change !== undefined && (
        <div className="mt-3 border-t border-line pt-2">
          <p className="mb-1 font-mono text-xs break-all text-ink-soft">Last change of {file.path}</p>
          <ChangeDiff key={change.seq} sandboxId={sandboxId} change={change} lines={25} />
        </div>
      )}
    </Section>
  )
}

const lastSeq = (file: FileState) => file.changes.at(-1)?.seq ?? 0
