import { FileMinus, FilePen, FilePlus, FileSymlink } from 'lucide-react'
import type { ReactNode } from 'react'
import type { FileChange } from '../../../timeline/rows'
import { CopyButton } from '../../../ui/copy'
import { Lines } from '../../../ui/diff'
import { KeptPlace } from '../../../ui/kept'
import { classes } from '../../../util/classes'
import { plural } from '../../../util/numbers'
import { ChangeDiff } from '../tabs/file-changes'
import { changeWords } from '../tabs/file-status'
import { Card, Title } from './frame'

const icons: Record<FileChange['change'], ReactNode> = {
  created: <FilePlus size={15} aria-hidden />,
  modified: <FilePen size={15} aria-hidden />,
  deleted: <FileMinus size={15} aria-hidden />,
  renamed: <FileSymlink size={15} aria-hidden />,
}

/** How many lines of a diff are shown in passing. */
export const DIFF_LINES = 25

/** A file, what happened to it, and its diff. */
export function FileChangeCard({
  change,
  sandboxId,
  folds = 'open',
  isInside = false,
  aside,
}: {
  change: FileChange
  sandboxId: string
  folds?: 'open' | 'closed'
  isInside?: boolean
  aside?: ReactNode
}) {
  return (
    <KeptPlace name={`file ${change.seq}`}>
      <Card
        icon={icons[change.change]}
        folds={folds}
        isInside={isInside}
        title={<Title name={changeWords[change.change]} about={<Path path={change.path} from={change.previousPath} />} />}
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
    </KeptPlace>
  )
}

/** More of them are in the files tab. */
const FILES_SHOWN = 20

/** What a tool changed on its way. */
export function ChangedFiles({ changes, sandboxId, isInside = false }: { changes: readonly FileChange[]; sandboxId: string; isInside?: boolean }) {
  if (changes.length === 0) return null
  return (
    <div className={classes('min-w-0', isInside ? undefined : 'flex flex-col gap-1.5')}>
      {changes.slice(0, FILES_SHOWN).map((change) => (
        <FileChangeCard key={change.seq} change={change} sandboxId={sandboxId} folds="closed" isInside={isInside} />
      ))}
      {changes.length > FILES_SHOWN && (
        <p className="text-xs text-ink-soft">{plural(changes.length - FILES_SHOWN, 'more file')} changed: see the files tab.</p>
      )}
    </div>
  )
}

function Path({ path, from }: { path: string; from: string | null }) {
  return <span title={path}>{from === null ? path : `${from} → ${path}`}</span>
}
