import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { type ReactNode, useEffect, useRef } from 'react'
import { mergeCommitQuery, useMergeTask, useOpenPullRequest } from '../../../api/branch-queries'
import type { PullRequestOut, TaskDiff } from '../../../api/contract'
import { errorMessage } from '../../../api/errors'
import { Button } from '../../../ui/button'
import { CopyButton } from '../../../ui/copy'
import { Spinner } from '../../../ui/spinner'
import { Checks } from './checks'
import { Feedback } from './feedback'
import { MergeForm } from './merge-form'
import { PullRequestLink } from './pull-request-link'
import { shortCommit } from './pull-request-state'

/** The pull request of a task: its state at the code host, and what a person can do with it. */
export function PullRequestPanel({
  taskId,
  pull,
  diff,
}: {
  taskId: string
  pull: UseQueryResult<PullRequestOut>
  /** The changes that the page shows; `null` if they are not loaded. */
  diff: TaskDiff | null
}) {
  return (
    <section
      aria-label="Pull request"
      tabIndex={-1}
      className="min-w-0 rounded-xl border border-line bg-surface p-3 text-sm sm:p-4"
    >
      {pull.isPending && (
        <p role="status" className="flex items-center gap-2 text-ink-soft">
          <Spinner /> Loading pull request…
        </p>
      )}
      {pull.data !== undefined && <PullRequest taskId={taskId} pull={pull.data} diff={diff} />}
      {pull.isError && (
        <div className="flex flex-wrap items-center gap-2">
          <Problem error={pull.error} />
          <Button onClick={() => void pull.refetch()}>Try again</Button>
        </div>
      )}
    </section>
  )
}

interface Props {
  taskId: string
  pull: PullRequestOut
  diff: TaskDiff | null
}

function PullRequest({ taskId, pull, diff }: Props) {
  if (pull.number === null) return <NoPullRequest taskId={taskId} pull={pull} diff={diff} />
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <PullRequestLink number={pull.number} url={pull.url} state={pull.state} />
        <Checks pull={pull} />
        {pull.state === 'open' && <Mergeable pull={pull} />}
      </div>
      {pull.state === 'open' && <Merge taskId={taskId} pull={pull} diff={diff} />}
      {pull.state === 'open' && <Feedback taskId={taskId} feedback={pull.feedback} />}
      {pull.state === 'merged' && <Merged taskId={taskId} base={pull.base} />}
      {pull.state === 'closed' && (
        <Proposal taskId={taskId} note="It was closed without a merge." label="Open another pull request" />
      )}
    </div>
  )
}

function Mergeable({ pull }: { pull: PullRequestOut }) {
  switch (pull.mergeable) {
    case true:
      return <span className="text-good">No conflicts with {pull.base}</span>
    case false:
      return <span className="font-medium text-bad">Conflicts with {pull.base}</span>
    case null:
      return (
        <span className="inline-flex items-center gap-1.5 text-ink-soft">
          <Spinner /> Looking for conflicts with {pull.base}…
        </span>
      )
  }
}

function NoPullRequest({ taskId, pull, diff }: Props) {
  if (pull.commit === null) return <p className="text-ink-soft">No pull request. The branch was deleted.</p>
  const nothing = diff?.ahead === 0 ? `The branch has no commits that ${pull.base} does not have.` : null
  return <Proposal taskId={taskId} note="No pull request yet." reason={nothing} label="Open pull request" />
}

/** Opens a pull request. */
function Proposal({
  taskId,
  note,
  label,
  reason = null,
}: {
  taskId: string
  note: string
  label: string
  /** Why there is nothing to open. */
  reason?: string | null
}) {
  const open = useOpenPullRequest(taskId)
  // The plane opens none if the branch has nothing new, and that is not an error.
  const opensNone = open.isSuccess && open.data.number === null
  return (
    <div className="flex flex-wrap items-center gap-2">
      <p className="mr-auto text-ink-soft">
        {note} {reason ?? (opensNone && 'The branch has nothing to propose.')}
      </p>
      <Button variant="primary" disabled={reason !== null || open.isPending} onClick={() => open.mutate()}>
        {open.isPending && <Spinner />} {open.isPending ? 'Opening…' : label}
      </Button>
      {open.isError && <Problem error={open.error} />}
    </div>
  )
}

function Merge({ taskId, pull, diff }: Props) {
  const merge = useMergeTask(taskId)
  // A push may be newer than the changes on the page: merge what the reader has seen, or nothing.
  const commit = diff?.commit ?? pull.commit
  if (commit === null) return null
  if (merge.isPending) return <Merging commit={commit} base={pull.base} />
  return (
    <>
      <MergeForm pull={pull} commit={commit} onMerge={(request) => merge.mutate(request)} />
      {merge.isError && <Problem error={merge.error} />}
    </>
  )
}

function Merging({ commit, base }: { commit: string; base: string }) {
  const line = useRef<HTMLParagraphElement>(null)
  // The button that had the focus is gone, and the outcome appears in the panel.
  useEffect(() => line.current?.closest('section')?.focus(), [])
  return (
    <p ref={line} role="status" className="flex min-h-9 items-center gap-2 text-ink-soft">
      <Spinner /> Merging {shortCommit(commit)} into {base}…
    </p>
  )
}

function Merged({ taskId, base }: { taskId: string; base: string }) {
  const commit = useQuery(mergeCommitQuery(taskId)).data ?? null
  return (
    <p role="status" className="flex flex-wrap items-center gap-x-1">
      <span>
        Merged into <code className="font-mono text-[0.8125rem]">{base}</code>
        {commit !== null && (
          <>
            {' as '}
            <code className="font-mono text-[0.8125rem]" title={commit}>
              {shortCommit(commit)}
            </code>
          </>
        )}
      </span>
      {commit !== null && <CopyButton text={commit} what="commit" />}
    </p>
  )
}

function Problem({ error }: { error: unknown }): ReactNode {
  return (
    <p role="alert" className="mr-auto min-w-0 break-words text-bad">
      {errorMessage(error)}
    </p>
  )
}
