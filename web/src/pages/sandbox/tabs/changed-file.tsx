import { FileMinus, FilePen, FilePlus, FileSymlink, Files } from 'lucide-react'
import { type ReactNode, useContext, useMemo, useSyncExternalStore } from 'react'
import type { FileDiff } from '../../../api/contract'
import { CopyButton } from '../../../ui/copy'
import { Diff, type DiffComments, Lines } from '../../../ui/diff'
import { plural } from '../../../util/numbers'
import { CommentForm } from '../branch/comment-form'
import { commentsOf, type LineComment } from '../branch/line-comments'
import { Card, Title } from '../cards/frame'
import { SandboxEnded } from '../sandbox-ended'
import { changeLabels } from './file-status'

const labels: Readonly<Record<string, string>> = { ...changeLabels, copied: 'Copied' }

const icons: Readonly<Record<string, ReactNode>> = {
  created: <FilePlus size={15} aria-hidden />,
  deleted: <FileMinus size={15} aria-hidden />,
  renamed: <FileSymlink size={15} aria-hidden />,
  copied: <Files size={15} aria-hidden />,
}

/** Lines of a diff shown before expanding. */
const LINES = 100

/** A file of a branch with its changes since the base. */
export function ChangedFile({
  sandboxId,
  file,
  folds,
}: {
  sandboxId: string
  file: FileDiff
  folds: 'open' | 'closed'
}) {
  const { path, previous_path: from } = file
  return (
    <Card
      icon={icons[file.change_type] ?? <FilePen size={15} aria-hidden />}
      folds={folds}
      title={
        <Title
          name={labels[file.change_type] ?? 'Changed'}
          about={<span title={path}>{from === null ? path : `${from} → ${path}`}</span>}
        />
      }
      aside={
        <>
          <Lines added={file.additions} removed={file.deletions} />
          <CopyButton text={path} what="path" />
        </>
      }
    >
      <Content sandboxId={sandboxId} file={file} />
    </Card>
  )
}

const NONE: readonly LineComment[] = []

/** The comments on a file, and the way to add one while the agent can get it. */
function useComments(sandboxId: string, path: string): DiffComments {
  const store = commentsOf(sandboxId)
  const comments = useSyncExternalStore(store.subscribe, () => store.state()[path] ?? NONE)
  const ended = useContext(SandboxEnded)
  return useMemo(
    () => ({
      onLine: ended ? null : (line) => store.add(path, line),
      below: ({ side, line }) => {
        const here = comments.filter((comment) => comment.side === side && comment.line === line)
        if (here.length === 0) return null
        return here.map((comment) => (
          <CommentForm
            key={comment.id}
            comment={comment}
            onWrite={(text) => store.write(path, comment.id, text)}
            onRemove={() => store.remove(path, comment.id)}
          />
        ))
      },
    }),
    [store, path, comments, ended],
  )
}

function Content({ sandboxId, file }: { sandboxId: string; file: FileDiff }) {
  const comments = useComments(sandboxId, file.path)
  const { diff, additions, deletions, previous_path: from } = file
  const total = `${plural(additions, 'line')} added and ${plural(deletions, 'line')} removed in total.`
  // Only text has lines to count.
  if (diff === null && (file.diff_truncated || additions + deletions > 0)) {
    return <Note>{`The diff is too large: ${total}`}</Note>
  }
  // GitHub sends no diff of a file that only moved.
  const onlyMoved = diff === null && from !== null
  return (
    <div className="min-w-0">
      <Diff diff={diff ?? ''} binary={diff === null && !onlyMoved} lines={LINES} comments={comments} />
      {file.diff_truncated && <Note>{`Truncated diff: ${total}`}</Note>}
    </div>
  )
}

function Note({ children }: { children: string }) {
  return <p className="px-3 py-2 text-sm text-ink-soft">{children}</p>
}
