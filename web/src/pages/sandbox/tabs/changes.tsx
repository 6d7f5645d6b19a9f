import { useQuery } from '@tanstack/react-query'
import { ArrowRight } from 'lucide-react'
import type { ReactNode } from 'react'
import { pullRequestQuery, taskDiffQuery } from '../../../api/branch-queries'
import type { TaskBranch, TaskDiff } from '../../../api/contract'
import { errorMessage } from '../../../api/errors'
import { useSandboxTask } from '../../../api/queries'
import { Button } from '../../../ui/button'
import { CopyButton } from '../../../ui/copy'
import { Lines } from '../../../ui/diff'
import { Empty, Failed, Loading } from '../../../ui/states'
import { plural } from '../../../util/numbers'
import { CommentBar } from '../branch/comment-bar'
import { PullRequestPanel } from '../branch/pull-request-panel'
import { TicketMergePanel } from '../branch/ticket-merge-panel'
import { ChangedFile } from './changed-file'
import { KeptWork } from './kept-work'

/** What the branch of the task has changed since it left its base, and its pull request. */
export default function ChangesTab({ sandboxId }: { sandboxId: string }) {
  const task = useSandboxTask(sandboxId)
  if (task.isPending) return <Loading what="task" />
  const branch = task.data?.branch ?? null
  if (task.data === undefined || task.data === null) return noBranch
  const kept = <KeptWork sandboxId={sandboxId} taskId={task.data.id} otherwise={branch === null ? noBranch : null} />
  if (branch === null) return kept
  const { id: taskId, ticket_id: ticketId } = task.data
  return <Changes {...{ sandboxId, taskId, ticketId, branch, kept }} />
}

const noBranch = (
  <Empty title="No branch">
    The task of this sandbox has no branch at a code host. Its files can be downloaded here when the agent has ended.
  </Empty>
)

function Changes({
  sandboxId,
  taskId,
  ticketId,
  branch,
  kept,
}: {
  sandboxId: string
  taskId: string
  ticketId: string | null
  branch: TaskBranch
  kept: ReactNode
}) {
  const diff = useQuery(taskDiffQuery(taskId))
  const pull = useQuery(pullRequestQuery(taskId))
  return (
    <div className="mx-auto flex max-w-6xl flex-col gap-4 p-3 sm:p-4">
      <Summary branch={branch} diff={diff.data ?? null} />
      <PullRequestPanel taskId={taskId} pull={pull} diff={diff.data ?? null} />
      {kept}
      {ticketId !== null && <TicketMergePanel ticketId={ticketId} />}
      {diff.isPending && <Loading what="changes" />}
      {diff.isError &&
        (diff.data === undefined ? (
          <Failed error={diff.error} onRetry={() => void diff.refetch()} />
        ) : (
          <Stale error={diff.error} onRetry={() => void diff.refetch()} />
        ))}
      {diff.data !== undefined && <Files sandboxId={sandboxId} diff={diff.data} />}
      <CommentBar sandboxId={sandboxId} />
    </div>
  )
}

/** The diff below is the last one that could be loaded. */
function Stale({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  return (
    <div role="alert" className="flex flex-wrap items-center gap-2 rounded-lg bg-warn-soft px-3 py-2 text-sm">
      <p className="mr-auto">These changes may be out of date. {errorMessage(error)}</p>
      <Button onClick={onRetry}>Try again</Button>
    </div>
  )
}

function Summary({ branch, diff }: { branch: TaskBranch; diff: TaskDiff | null }) {
  return (
    <section aria-label="Branch" className="flex flex-wrap items-center gap-x-3 gap-y-1 text-sm">
      <h2 className="flex min-w-0 flex-wrap items-center gap-x-1.5 font-mono text-sm font-semibold">
        <span className="min-w-0 break-all">{branch.name}</span>
        <ArrowRight size={14} aria-hidden className="shrink-0 text-ink-faint" />
        <span className="sr-only"> to </span>
        <span className="min-w-0 break-all">{branch.base}</span>
      </h2>
      <CopyButton text={branch.name} what="branch name" />
      {diff !== null && (
        <>
          <span className="text-ink-soft">{distance(diff)}</span>
          {diff.files.length > 0 && (
            <span className="flex items-center gap-2 text-ink-soft sm:ml-auto">
              {plural(diff.files.length, 'changed file')}
              {diff.files_truncated && ' or more'}
              <Lines added={sum(diff, 'additions')} removed={sum(diff, 'deletions')} />
            </span>
          )}
        </>
      )}
    </section>
  )
}

function distance({ ahead, behind }: TaskDiff): string {
  if (ahead === 0 && behind === 0) return 'Same as its base'
  const parts = [ahead > 0 && `${plural(ahead, 'commit')} ahead`, behind > 0 && `${plural(behind, 'commit')} behind`]
  return parts.filter(Boolean).join(', ')
}

const sum = (diff: TaskDiff, field: 'additions' | 'deletions') =>
  diff.files.reduce((total, file) => total + file[field], 0)

/** With more files, their diffs are collapsed: rendering all at once would make the page slow. */
const MAX_OPEN_FILES = 20

function Files({ sandboxId, diff }: { sandboxId: string; diff: TaskDiff }) {
  if (diff.files.length === 0) {
    return <Empty title="No changes yet.">Commits of the agent appear here as soon as they are at the code host.</Empty>
  }
  return (
    <section aria-label="Changed files" className="flex min-w-0 flex-col gap-2">
      <ul className="flex min-w-0 flex-col gap-2">
        {diff.files.map((file) => (
          <li key={file.path} className="min-w-0">
            <ChangedFile
              sandboxId={sandboxId}
              file={file}
              folds={diff.files.length > MAX_OPEN_FILES ? 'closed' : 'open'}
            />
          </li>
        ))}
      </ul>
      {diff.files_truncated && (
        <p className="text-sm text-ink-soft">
          Only the first {plural(diff.files.length, 'file')} are shown. The code host has all of them.
        </p>
      )}
    </section>
  )
}
