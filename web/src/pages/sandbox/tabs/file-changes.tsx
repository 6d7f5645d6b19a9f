import { History } from 'lucide-react'
import { useState } from 'react'
import { Link } from 'react-router'
import type { FileChange } from '../../../timeline/rows'
import { MoreButton } from '../../../ui/code'
import { Diff, Lines } from '../../../ui/diff'
import { count, plural } from '../../../util/numbers'
import { paths } from '../../../util/paths'
import { dateAndTime, timeOfDay } from '../../../util/time'
import { useRest } from '../cards/rest'
import { changeWords } from './file-status'

/** More at once would make the page slow: earlier ones are shown when somebody asks. */
const SHOWN_AT_ONCE = 30

/** Every change of one file, the latest at the end. */
export function FileChanges({ sandboxId, changes, split = false }: { sandboxId: string; changes: readonly FileChange[]; split?: boolean }) {
  const [shown, setShown] = useState(SHOWN_AT_ONCE)
  const hidden = Math.max(0, changes.length - shown)
  return (
    <>
      {hidden > 0 && (
        <MoreButton onClick={() => setShown(shown + SHOWN_AT_ONCE)}>Show earlier changes ({count(hidden)} more)</MoreButton>
      )}
      <ol className="flex flex-col gap-4">
        {changes.slice(hidden).map((change, index) => (
          <li key={change.seq}>
            <OneChange sandboxId={sandboxId} change={change} place={`${hidden + index + 1} of ${changes.length}`} split={split} />
          </li>
        ))}
      </ol>
    </>
  )
}

function OneChange({ sandboxId, change, place, split }: { sandboxId: string; change: FileChange; place: string; split: boolean }) {
  return (
    <section aria-label={`Change ${place}`} className="overflow-hidden rounded-lg border border-line bg-surface">
      <header className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b border-line px-3 py-1.5 text-sm">
        <span className="font-medium">{changeWords[change.change]}</span>
        {change.previousPath !== null && <span className="font-mono text-xs text-ink-soft">from {change.previousPath}</span>}
        <Lines added={change.added} removed={change.removed} />
        <time dateTime={change.at} title={dateAndTime(change.at)} className="text-xs text-ink-soft">
          {timeOfDay(change.at)}
        </time>
        <span className="text-xs text-ink-faint">{place}</span>
        <Link
          to={paths.moment(sandboxId, change.seq)}
          className="ml-auto inline-flex min-h-7 items-center gap-1 rounded px-1.5 text-xs font-medium text-accent hover:bg-accent-soft"
        >
          <History size={13} aria-hidden /> Go to this moment
        </Link>
      </header>
      <ChangeDiff sandboxId={sandboxId} change={change} split={split} />
    </section>
  )
}

/** A change's diff. What was too long for the log is fetched when somebody asks for it. */
export function ChangeDiff({
  sandboxId,
  change,
  split = false,
  lines = 200,
}: {
  sandboxId: string
  change: FileChange
  split?: boolean
  lines?: number
}) {
  const canLoad = !change.whole && change.fullAvailable && !change.binary
  const { body, more } = useRest(sandboxId, canLoad ? change.seq : null, 'diff')
  const full = body?.['full_diff']
  return (
    <div className="min-w-0 px-1 py-1">
      <Diff diff={typeof full === 'string' ? full : change.diff} binary={change.binary} split={split} lines={lines} />
      {more}
      {!change.whole && !change.binary && more === null && typeof full !== 'string' && (
        <p className="px-3 py-1 text-sm text-ink-soft">
          This is the beginning of it, {plural(change.added, 'line')} added and {count(change.removed)} removed in all. The diff was
          too large to be kept whole.
        </p>
      )}
    </div>
  )
}
