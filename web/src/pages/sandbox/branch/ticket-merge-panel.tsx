import { useQuery } from '@tanstack/react-query'
import { GitMerge } from 'lucide-react'
import { useState } from 'react'
import { mergingTicketQuery, useMergeTicket } from '../../../api/branch-queries'
import type { BranchMerge, TicketDetails, TicketMerge } from '../../../api/contract'
import { errorMessage } from '../../../api/errors'
import { Badge } from '../../../ui/badge'
import { Button } from '../../../ui/button'
import { Spinner } from '../../../ui/spinner'
import { plural } from '../../../util/numbers'
import { type Look, shortCommit } from './pull-request-state'

/** Merges all finished branches of a ticket. Renders nothing for a ticket with one finished task and no merge. */
export function TicketMergePanel({ ticketId }: { ticketId: string }) {
  // The tab is complete without it: an error is shown where the ticket is.
  const ticket = useQuery(mergingTicketQuery(ticketId)).data
  if (ticket === undefined) return null
  const finished = finishedTasks(ticket)
  const merge = ticket.merge ?? null
  if (finished < 2 && merge === null) return null
  return (
    <section
      aria-label="Branches of the ticket"
      className="flex min-w-0 flex-col gap-3 rounded-xl border border-line bg-surface p-3 text-sm sm:p-4"
    >
      {merge !== null && <Progress merge={merge} />}
      {merge?.state !== 'running' && finished > 1 && <Start ticketId={ticketId} finished={finished} />}
    </section>
  )
}

/** The number of tasks that may have a branch to merge. */
export function finishedTasks({ tasks }: Pick<TicketDetails, 'tasks'>): number {
  const others = ['analyze_requirements', 'resolve_conflicts']
  return tasks.filter((task) => task.status === 'completed' && !others.includes(task.task_type)).length
}

function Start({ ticketId, finished }: { ticketId: string; finished: number }) {
  const merge = useMergeTicket(ticketId)
  const [resolves, setResolves] = useState(false)
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
      <p className="mr-auto min-w-0 text-ink-soft">
        {plural(finished, 'task')} of this ticket {finished === 1 ? 'is' : 'are'} finished.
      </p>
      <label className="flex min-h-9 items-center gap-2">
        <input
          type="checkbox"
          checked={resolves}
          onChange={({ target }) => setResolves(target.checked)}
          className="size-4 accent-accent"
        />
        Let an agent resolve conflicts
      </label>
      <Button disabled={merge.isPending} onClick={() => merge.mutate({ resolve_conflicts: resolves })}>
        {merge.isPending ? <Spinner /> : <GitMerge size={15} aria-hidden />} Merge all branches
      </Button>
      {merge.isError && (
        <p role="alert" className="basis-full break-words text-bad">
          {errorMessage(merge.error)}
        </p>
      )}
    </div>
  )
}

const looks: Record<BranchMerge['state'], Look> = {
  waiting: { label: 'Waiting', tone: 'quiet' },
  resolving: { label: 'Resolving', tone: 'warn' },
  merged: { label: 'Merged', tone: 'good' },
  conflict: { label: 'Conflict', tone: 'bad' },
  skipped: { label: 'Skipped', tone: 'warn' },
}

function Progress({ merge }: { merge: TicketMerge }) {
  const merged = merge.branches.filter(({ state }) => state === 'merged').length
  return (
    <>
      <p role="status" className="flex items-center gap-2 font-medium">
        {merge.state === 'running' && <Spinner />}
        {merge.state === 'running' ? 'Merging' : 'Merged'} {merged} of{' '}
        {plural(merge.branches.length, 'branch', 'branches')}
      </p>
      <ol className="flex min-w-0 flex-col gap-2">
        {merge.branches.map((branch) => (
          <li key={branch.task_id} className="flex min-w-0 flex-wrap items-baseline gap-x-2 gap-y-1">
            <Badge tone={looks[branch.state].tone}>{looks[branch.state].label}</Badge>
            <code className="min-w-0 font-mono text-[0.8125rem] break-all">{branch.branch}</code>
            {branch.commit !== undefined && (
              <span className="text-ink-soft">
                as <code className="font-mono text-[0.8125rem]">{shortCommit(branch.commit)}</code>
              </span>
            )}
            {branch.reason !== undefined && <span className="min-w-0 break-words text-ink-soft">{branch.reason}</span>}
          </li>
        ))}
      </ol>
    </>
  )
}
