import { useQuery } from '@tanstack/react-query'
import { GitBranch } from 'lucide-react'
import { pullRequestQuery } from '../../../api/branch-queries'
import type { TaskBranch } from '../../../api/contract'
import { CopyButton } from '../../../ui/copy'
import { paths } from '../../../util/paths'
import { Checks } from './checks'
import { PullRequestLink } from './pull-request-link'

/** The branch of a task, its pull request and checks, for the header. */
export function BranchLine({ taskId, branch }: { taskId: string; branch: TaskBranch }) {
  const link = branch.pull_request ?? null
  // The header is complete without it: an error is shown in the Changes tab.
  const pull = useQuery({ ...pullRequestQuery(taskId), enabled: link !== null }).data
  const state = pull?.state ?? (link?.merged_at === undefined ? null : 'merged')
  return (
    <>
      <span className="flex min-w-0 items-center">
        <GitBranch size={13} aria-hidden className="mr-1 shrink-0 text-ink-faint" />
        <span className="sr-only">Branch </span>
        <code className="min-w-0 truncate font-mono text-xs text-ink-soft" title={branch.name}>
          {branch.name}
        </code>
        <CopyButton text={branch.name} what="branch name" />
      </span>
      {link !== null && (
        <PullRequestLink number={link.number} url={link.url} state={state} otherwise={paths.tab('changes')} />
      )}
      {pull !== undefined && <Checks pull={pull} />}
    </>
  )
}
