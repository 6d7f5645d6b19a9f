import { FileMinus, FilePen, FilePlus, FileSymlink } from 'lucide-react'
import type { ReactNode } from 'react'
import type { FileChange } from '../../../timeline/rows'
import { CopyButton } from '../../../ui/copy'
import { Lines } from '../../../ui/diff'
import { KeptPlace } from '../../../ui/kept'
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
  aside,
}: {
  change: FileChange
  sandboxId: string
  folds?: 'open' | 'closed'
  aside?: ReactNode
}) {
  return (
    <KeptPlace name={`file ${change.seq}`}>
      <Card
        icon={icons[change.change]}
        folds={folds}
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
export function ChangedFiles({ changes, sandboxId }: { changes: readonly FileChange[]; sandboxId: string }) {
  return (
    <>
      {changes.slice(0, FILES_SHOWN).map((change) => (
        <FileChangeCard key={change.seq} change={change} sandboxId={sandboxId} folds="closed" />
      ))}
      {changes.length > FILES_SHOWN && (
        <p className="text-xs text-ink-soft">{plural(changes.length - FILES_SHOWN, 'more file')} changed: see the files tab.</p>
      )}
    </>
  )
}

function Path({ path, from }: { path: string; from: string | null }) {
  return <span title={path}>{from === null ? path : `${from} → ${path}`}</span>
}
