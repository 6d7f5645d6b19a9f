import { useMemo, useState } from 'react'
import { useSandbox, useSandboxTask, useTicket } from '../../../api/queries'
import type { SandboxOut, TaskOut } from '../../../api/contract'
import type { Run } from '../../../timeline/run'
import type { Row, TurnRow } from '../../../timeline/rows'
import { Code, MoreButton } from '../../../ui/code'
import { Markdown } from '../../../ui/markdown'
import { Failed, Loading } from '../../../ui/states'
import { StatusBadge, ofSandbox, ofTask } from '../../../ui/status'
import { count, dollars } from '../../../util/numbers'
import { principalName } from '../../../util/principals'
import { duration, useNow } from '../../../util/time'
import { Fact, FactList, IdFact, Section, TimeFact } from './fact-list'
import { originOf } from './origin'
import { type Log, CompleteRunProgress, useCompleteRun } from './complete-run'

export default function DetailsTab({ sandboxId, log }: { sandboxId: string; log: Log }) {
  useCompleteRun(log)
  const sandbox = useSandbox(sandboxId)
  const task = useSandboxTask(sandboxId)
  const description = task.data?.description ?? ''
  return (
    <div className="flex h-full min-h-0 flex-col">
      <CompleteRunProgress log={log} />
      <div className="min-h-0 flex-1 overflow-auto">
        <div className="mx-auto grid max-w-6xl items-start gap-4 p-3 sm:p-4 lg:grid-cols-2">
          {task.isPending && <Loading what="task" />}
          {task.isError && <Failed error={task.error} onRetry={() => void task.refetch()} />}
          {task.data !== undefined && task.data !== null && <Task task={task.data} />}
          {sandbox.isPending && <Loading what="sandbox" />}
          {sandbox.isError && <Failed error={sandbox.error} onRetry={() => void sandbox.refetch()} />}
          {sandbox.data !== undefined && <Sandbox sandbox={sandbox.data} log={log} />}
          {description !== '' && (
            <Section title="Description">
              <Markdown text={description} />
            </Section>
          )}
          {task.data !== undefined && task.data !== null && <Result task={task.data} />}
          <Usage run={log.run} rows={log.timeline.rows} />
          <Counts run={log.run} types={sandbox.data?.event_counts ?? {}} />
        </div>
      </div>
    </div>
  )
}

function Task({ task }: { task: TaskOut }) {
  const ticket = useTicket(task.ticket_id)
  return (
    <Section title="Task">
      <FactList>
        <Fact name="Title">{task.title}</Fact>
        <Fact name="Status">
          <StatusBadge status={ofTask(task)} />
        </Fact>
        <Fact name="Priority">{capitalised(task.priority)}</Fact>
        <Fact name="Type">{task.task_type}</Fact>
        <Fact name="Phase">{task.phase_id}</Fact>
        <Fact name="Attempt">
          {task.attempt} {task.retry_count > 0 && `(retry ${task.retry_count} of ${task.max_retries})`}
        </Fact>
        <IdFact name="Task" id={task.id} />
        <IdFact name="Ticket" id={task.ticket_id} />
        <Fact name="Ticket title">{ticket.data?.title}</Fact>
        <IdFact name="Project" id={task.project_id} />
        <Fact name="Repository">{ticket.data?.repository}</Fact>
        <TimeFact name="Created" at={task.created_at} />
        <TimeFact name="Started" at={task.started_at} />
        <TimeFact name="Ended" at={task.completed_at} />
        <TimeFact name="Times out" at={task.times_out_at} />
        <TimeFact name="Due" at={task.deadline_at} />
        <Fact name="Depends on">{task.dependencies.depends_on.join(', ')}</Fact>
      </FactList>
    </Section>
  )
}

function Sandbox({ sandbox, log }: { sandbox: SandboxOut; log: Log }) {
  const now = useNow()
  const origin = useMemo(() => originOf(log.events), [log.events])
  const { run } = log
  const ended = sandbox.ended?.at ?? run.endedAt
  const lastHeartbeat = latest(sandbox.heartbeats.last_heartbeat, log.heartbeatAt)
  return (
    <Section title="Sandbox">
      <FactList>
        <Fact name="Name">{sandbox.name}</Fact>
        <Fact name="Status">
          <StatusBadge status={ofSandbox(sandbox)} />
        </Fact>
        <IdFact name="Sandbox" id={sandbox.sandbox_id} />
        <IdFact name="Session" id={run.sessionId} />
        <IdFact name="Resumes session" id={sandbox.resumes} />
        <Fact name="Provider">{origin.provider}</Fact>
        <Fact name="Agent">{run.agent}</Fact>
        <Fact name="Model">{run.model}</Fact>
        <Fact name="Isolation">{run.isolation === 'none' ? 'none: not isolated' : run.isolation}</Fact>
        <Fact name="Not covered">
          {run.notCovered.length > 0 && (
            <ul className="flex flex-col gap-1">
              {run.notCovered.map((sentence) => (
                <li key={sentence}>{sentence}</li>
              ))}
            </ul>
          )}
        </Fact>
        <Fact name="Repository">{origin.repository}</Fact>
        <Fact name="Branch">
          {origin.branch !== null && <span className="font-mono text-xs">{origin.branch}</span>}
        </Fact>
        <TimeFact name="Created" at={sandbox.created_at} />
        <Fact name="Registered by">{registrantOf(sandbox)}</Fact>
        <TimeFact name="Agent started" at={run.startedAt} />
        <TimeFact name="Ended" at={ended} />
        <Fact name="Duration">
          {run.startedAt !== null && duration((ended === null ? now : Date.parse(ended)) - Date.parse(run.startedAt))}
        </Fact>
        <Fact name="End reason">{sandbox.ended?.reason}</Fact>
        <Fact name="Stop reason">{run.stopReason}</Fact>
        <Fact name="Queued messages">{count(sandbox.queue_size)}</Fact>
        <TimeFact name="Last heartbeat" at={lastHeartbeat} />
        <Fact name="Heartbeats">
          {count(sandbox.heartbeats.count)}
          {sandbox.heartbeat_status !== null && `, last status “${sandbox.heartbeat_status}”`}
        </Fact>
        <TimeFact name="Last activity" at={sandbox.last_work_at} />
      </FactList>
    </Section>
  )
}

function Result({ task }: { task: TaskOut }) {
  if (task.error_message === null && task.result === null && task.feedback === null) return null
  return (
    <Section title="Result">
      <div className="flex flex-col gap-3">
        {task.error_message !== null && (
          <p className="rounded-md bg-bad-soft px-3 py-2 text-bad">{task.error_message}</p>
        )}
        {task.feedback !== null && (
          <div>
            <h3 className="mb-1 text-xs font-medium text-ink-soft">Review feedback</h3>
            <Markdown text={task.feedback} />
          </div>
        )}
        {task.result !== null && <Code text={JSON.stringify(task.result, null, 2)} what="result" lines={20} />}
      </div>
    </Section>
  )
}

function Usage({ run, rows }: { run: Run; rows: readonly Row[] }) {
  const turns = useMemo(() => rows.filter((row): row is TurnRow => row.kind === 'turn'), [rows])
  return (
    <Section title="Cost and tokens">
      <FactList>
        <Fact name="Cost">{dollars(run.costUsd)}</Fact>
        <Fact name="Input tokens">{count(run.inputTokens)}</Fact>
        <Fact name="Output tokens">{count(run.outputTokens)}</Fact>
        <Fact name="Cache read tokens">{count(run.cacheReadTokens)}</Fact>
        <Fact name="Cache write tokens">{count(run.cacheWriteTokens)}</Fact>
      </FactList>
      {turns.length > 0 && <TurnBars turns={turns} />}
    </Section>
  )
}

const MAX_TURNS = 20

function TurnBars({ turns }: { turns: readonly TurnRow[] }) {
  const [all, setAll] = useState(false)
  const shown = all ? turns : turns.slice(-MAX_TURNS)
  const max = turns.reduce((greatest, turn) => Math.max(greatest, turn.costUsd ?? 0), 0)
  return (
    <>
      <h3 className="mt-4 mb-1.5 text-xs font-medium text-ink-soft">Cost per turn</h3>
      {shown.length < turns.length && (
        <MoreButton onClick={() => setAll(true)}>Show all {count(turns.length)} turns</MoreButton>
      )}
      <ol className="flex flex-col gap-1 text-xs tabular-nums">
        {shown.map((turn, index) => (
          <li key={turn.key} className="grid grid-cols-[4.5rem_1fr_auto] items-center gap-2">
            <span className="text-ink-soft">Turn {turns.length - shown.length + index + 1}</span>
            <span aria-hidden className="h-2 overflow-hidden rounded bg-sunken">
              <span
                className="block h-full rounded bg-accent"
                style={{ width: `${max === 0 ? 0 : Math.max(1, (100 * (turn.costUsd ?? 0)) / max)}%` }}
              />
            </span>
            <span>
              {turn.costUsd === null ? 'unknown' : dollars(turn.costUsd)}
              <span className="text-ink-faint">
                {turn.inputTokens !== null &&
                  turn.outputTokens !== null &&
                  `, ${count(turn.inputTokens)} in, ${count(turn.outputTokens)} out`}
                {turn.durationMs !== null && `, ${duration(turn.durationMs)}`}
              </span>
            </span>
          </li>
        ))}
      </ol>
    </>
  )
}

function Counts({ run, types }: { run: Run; types: Readonly<Record<string, number>> }) {
  const byType = Object.entries(types).sort(
    ([left, leftCount], [right, rightCount]) => rightCount - leftCount || left.localeCompare(right),
  )
  return (
    <Section title="Counts">
      <FactList>
        <Fact name="Events">{count(run.counts.events)}</Fact>
        <Fact name="Turns">{count(run.turns)}</Fact>
        <Fact name="Tool calls">{count(run.counts.toolUses)}</Fact>
        <Fact name="File edits">{count(run.counts.fileEdits)}</Fact>
        <Fact name="Messages">{count(run.counts.messages)}</Fact>
        <Fact name="Errors">{count(run.counts.errors)}</Fact>
      </FactList>
      {byType.length > 0 && (
        <details className="mt-3 text-sm">
          <summary className="cursor-pointer rounded text-ink-soft">Events by type</summary>
          <dl className="mt-2 grid grid-cols-[1fr_auto] gap-x-4 gap-y-1 font-mono text-xs">
            {byType.map(([type, number]) => (
              <div key={type} className="col-span-2 grid grid-cols-subgrid">
                <dt className="text-ink-soft">{type}</dt>
                <dd className="text-right tabular-nums">{count(number)}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </Section>
  )
}

/** Who registered the sandbox, if the plane did not create it for a task. */
function registrantOf({ registered_by: by }: SandboxOut): string | null {
  return by === undefined ? null : principalName({ kind: by.kind, id: by.id ?? null })
}

/** Timestamps of the API sort as text. */
const latest = (left: string | null, right: string | null) =>
  left === null ? right : right === null || left > right ? left : right
const capitalised = (text: string) => text.charAt(0) + text.slice(1).toLowerCase()
