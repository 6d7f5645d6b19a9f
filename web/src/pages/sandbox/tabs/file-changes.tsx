import { History } from 'lucide-react'
import { useState } from 'react'
import { Link } from 'react-router'
import type { FileChange } from '../../../timeline/rows'
import { MoreButton } from '../../../ui/code'
import { Diff, Lines } from '../../../ui/diff'
import { count, plural } from '../../../util/numbers'
import { paths } from '../../../util/paths'
import { dateAndTime, timeOfDay } from '../../../util/time'
import { useFullBody } from '../cards/full-body'
import { changeLabels } from './file-status'

/** More at once would make the page slow. Earlier changes are shown on demand. */
const PAGE_SIZE = 30

/** Every change of a file, latest last. */
export function FileChanges({
  sandboxId,
  changes,
  split = false,
}: {
  sandboxId: string
  changes: readonly FileChange[]
  split?: boolean
}) {
  const [shown, setShown] = useState(PAGE_SIZE)
  const hidden = Math.max(0, changes.length - shown)
  return (
    <>
      {hidden > 0 && (
        <MoreButton onClick={() => setShown(shown + PAGE_SIZE)}>Show earlier changes ({count(hidden)} more)</MoreButton>
      )}
      <ol className="flex flex-col gap-4">
        {changes.slice(hidden).map((change, index) => (
          <li key={change.seq}>
            <SingleChange
              sandboxId={sandboxId}
              change={change}
              position={`${hidden + index + 1} of ${changes.length}`}
              split={split}
            />
          </li>
        ))}
      </ol>
    </>
  )
}

function SingleChange({
  sandboxId,
  change,
  position,
  split,
}: {
  sandboxId: string
  change: FileChange
  position: string
  split: boolean
}) {
  return (
    <section aria-label={`Change ${position}`} className="overflow-hidden rounded-lg border border-line bg-surface">
      <header className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b border-line px-3 py-1.5 text-sm">
        <span className="font-medium">{changeLabels[change.change]}</span>
        {change.previousPath !== null && (
          <span className="font-mono text-xs text-ink-soft">from {change.previousPath}</span>
        )}
        <Lines added={change.added} removed={change.removed} />
        <time dateTime={change.at} title={dateAndTime(change.at)} className="text-xs text-ink-soft">
          {timeOfDay(change.at)}
        </time>
        <span className="text-xs text-ink-faint">{position}</span>
        <Link
          to={paths.moment(sandboxId, change.seq)}
          className="ml-auto inline-flex min-h-7 items-center gap-1 rounded px-1.5 text-xs font-medium text-accent hover:bg-accent-soft"
        >
          <History size={13} aria-hidden /> Go to event
        </Link>
      </header>
      <ChangeDiff sandboxId={sandboxId} change={change} split={split} />
    </section>
  )
}

/** The diff of a change. A diff that was too long for the log is loaded on demand. */
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
  const canLoad = !change.complete && change.fullAvailable && !change.binary
  const { body, more } = useFullBody(sandboxId, canLoad ? change.seq : null, 'diff')
  const full = body?.['full_diff']
  return (
    <div className="min-w-0 px-1 py-1">
      <Diff diff={typeof full === 'string' ? full : change.diff} binary={change.binary} split={split} lines={lines} />
      {more}
      {!change.complete && !change.binary && more === null && typeof full !== 'string' && (
        <p className="px-3 py-1 text-sm text-ink-soft">
          Truncated diff: {plural(change.added, 'line')} added and {count(change.removed)} removed in total. The full
          diff was too large to store.
        </p>
      )}
    </div>
  )
}
