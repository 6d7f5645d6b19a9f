import { FileMinus, FilePen, FilePlus, FileSymlink } from 'lucide-react'
import type { ReactNode } from 'react'
import type { FileChange } from '../../../timeline/rows'
import { CopyButton } from '../../../ui/copy'
import { Lines } from '../../../ui/diff'
import { RetainedScope } from '../../../ui/retained-state'
import { classes } from '../../../util/classes'
import { plural } from '../../../util/numbers'
import { ChangeDiff } from '../tabs/file-changes'
import { changeLabels } from '../tabs/file-status'
import { Card, Title } from './frame'

const icons: Record<FileChange['change'], ReactNode> = {
  created: <FilePlus size={15} aria-hidden />,
  modified: <FilePen size={15} aria-hidden />,
  deleted: <FileMinus size={15} aria-hidden />,
  renamed: <FileSymlink size={15} aria-hidden />,
}

/** Lines of a diff shown before expanding. */
export const DIFF_LINES = 25

/** A changed file with its diff. */
export function FileChangeCard({
  change,
  sandboxId,
  folds = 'open',
  isNested = false,
  aside,
}: {
  change: FileChange
  sandboxId: string
  folds?: 'open' | 'closed'
  isNested?: boolean
  aside?: ReactNode
}) {
  return (
    <RetainedScope name={`file ${change.seq}`}>
      <Card
        icon={icons[change.change]}
        folds={folds}
        isNested={isNested}
        title={
          <Title name={changeLabels[change.change]} about={<Path path={change.path} from={change.previousPath} />} />
        }
        aside={
          <>
            <Lines added={change.added} removed={change.removed} />
            {aside}
            <CopyButton text={change.path} what="path" />
          </>
        }
      >
        <ChangeDiff sandboxId={sandboxId} change={change} lines={DIFF_LINES} />
      </Card>
    </RetainedScope>
  )
}

/** The Files tab shows the others. */
const MAX_FILES = 20

/** Files that a tool changed as a side effect. */
export function ChangedFiles({
  changes,
  sandboxId,
  isNested = false,
}: {
  changes: readonly FileChange[]
  sandboxId: string
  isNested?: boolean
}) {
  if (changes.length === 0) return null
  return (
    <div className={classes('min-w-0', isNested ? undefined : 'flex flex-col gap-1.5')}>
      {changes.slice(0, MAX_FILES).map((change) => (
        <FileChangeCard key={change.seq} change={change} sandboxId={sandboxId} folds="closed" isNested={isNested} />
      ))}
      {changes.length > MAX_FILES && (
        <p className="text-xs text-ink-soft">
          {plural(changes.length - MAX_FILES, 'more file')} changed. See the Files tab.
        </p>
      )}
    </div>
  )
}

function Path({ path, from }: { path: string; from: string | null }) {
  return <span title={path}>{from === null ? path : `${from} → ${path}`}</span>
}
