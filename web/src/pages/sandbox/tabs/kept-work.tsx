import { useQuery } from '@tanstack/react-query'
import { Download } from 'lucide-react'
import type { ReactNode } from 'react'
import type { TaskWorkspace, WorkspaceFile } from '../../../api/contract'
import { errorMessage } from '../../../api/errors'
import { keptPatchQuery, taskWorkspaceQuery, useDownload } from '../../../api/workspace-queries'
import { Button } from '../../../ui/button'
import { Failed, Loading } from '../../../ui/states'
import { bytes, plural } from '../../../util/numbers'
import { filesOf } from '../../../util/patch'
import { CommentBar } from '../branch/comment-bar'
import { ChangedFile } from './changed-file'

const NAMES = { archive: 'Files', patch: 'Patch', bundle: 'Commits' } as const

/** Number of files whose diffs are shown. More would make the page slow; the download has all of them. */
const MAX_FILES = 100
/** With more files, their diffs are collapsed. */
const MAX_OPEN_FILES = 20

/** Work of a task that is on no branch: downloads, and the changes. */
export function KeptWork({
  sandboxId,
  taskId,
  otherwise,
}: {
  sandboxId: string
  taskId: string
  /** Shown if nothing is kept. */
  otherwise: ReactNode
}) {
  const kept = useQuery(taskWorkspaceQuery(sandboxId, taskId))
  if (kept.isPending) return otherwise === null ? null : <Loading what="files" />
  if (kept.data === undefined) return <Failed error={kept.error} onRetry={() => void kept.refetch()} />
  if (kept.data === null) return otherwise
  const patch = kept.data.files.find((file) => file.format === 'patch')
  return (
    <div className={otherwise === null ? 'contents' : 'mx-auto flex max-w-6xl flex-col gap-4 p-3 sm:p-4'}>
      <Downloads kept={kept.data} />
      {patch !== undefined && <Patch sandboxId={sandboxId} kept={kept.data} file={patch} />}
      {/* The changes of a branch bring their own. */}
      {otherwise !== null && <CommentBar sandboxId={sandboxId} />}
    </div>
  )
}

function Downloads({ kept }: { kept: TaskWorkspace }) {
  const download = useDownload(kept)
  const running = (download.isPending ? download.variables : undefined) ?? null
  return (
    <section aria-label="Kept work" className="flex flex-col gap-2 rounded-lg border border-line p-3 text-sm">
      <p>
        Work that is on no branch is kept until{' '}
        <time dateTime={kept.expires_at}>{kept.expires_at.slice(0, 'yyyy-mm-dd'.length)}</time>.
      </p>
      <div className="flex flex-wrap gap-2">
        {kept.files.map((file) => (
          <Button key={file.format} disabled={download.isPending} onClick={() => download.mutate(file)}>
            <Download size={14} aria-hidden />
            Download {NAMES[file.format].toLowerCase()} ({bytes(file.size_bytes)})
          </Button>
        ))}
      </div>
      {running !== null && (
        <p role="status">
          Downloaded {bytes(download.done)} of {bytes(running.size_bytes)}
        </p>
      )}
      {download.isError && <p role="alert">{errorMessage(download.error)}</p>}
      <LeftOut kept={kept} />
    </section>
  )
}

function LeftOut({ kept: { left_out, left_out_count } }: { kept: TaskWorkspace }) {
  if (left_out_count === 0) return null
  return (
    <details>
      <summary className="cursor-pointer">{plural(left_out_count, 'part')} not included</summary>
      <ul className="mt-1 flex flex-col gap-0.5 text-ink-soft">
        {left_out.map(({ path, reason }) => (
          <li key={path} className="break-words">
            <code className="font-mono text-xs">{path}</code>: {reason}
          </li>
        ))}
        {left_out_count > left_out.length && <li>and {plural(left_out_count - left_out.length, 'more part')}</li>}
      </ul>
    </details>
  )
}

function Patch({ sandboxId, kept, file }: { sandboxId: string; kept: TaskWorkspace; file: WorkspaceFile }) {
  const patch = useQuery(keptPatchQuery(kept, file))
  if (patch.isPending) return <Loading what="changes" />
  if (patch.isError) return <Failed error={patch.error} onRetry={() => void patch.refetch()} />
  const files = filesOf(patch.data)
  return (
    <section aria-label="Kept changes" className="flex min-w-0 flex-col gap-2">
      <ul className="flex min-w-0 flex-col gap-2">
        {files.slice(0, MAX_FILES).map((each) => (
          <li key={each.path} className="min-w-0">
            <ChangedFile sandboxId={sandboxId} file={each} folds={files.length > MAX_OPEN_FILES ? 'closed' : 'open'} />
          </li>
        ))}
      </ul>
      {files.length > MAX_FILES && (
        <p className="text-sm text-ink-soft">
          Only the first {plural(MAX_FILES, 'file')} of {files.length} are shown. The patch has all of them.
        </p>
      )}
    </section>
  )
}
