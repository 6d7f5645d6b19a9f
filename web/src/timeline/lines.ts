import type { JsonObject, KnownEventType } from '../api/contract'
import { base, type RowsBuilder, type RowPath } from './rows-builder'
import type { LogEvent } from './event'
import { principalName } from '../util/principals'
import { failureReason, type FailureEvent } from './event-error'
import { notCoveredBy } from './isolation'
import { firstText, flag, isFalse, isObject, list, number, object, someFlag, someNumber, someText, text } from './read'
import type { ErrorRow, LineRow, Tone } from './rows'
import { interruptRunning } from './tools'

// Lifecycle events as one-line rows, or as error rows where a person should look.

type LineText = Pick<LineRow, 'tone' | 'text'> & Partial<Pick<LineRow, 'detail'>>

export function line(builder: RowsBuilder, event: LogEvent, content: LineText, key?: string): RowPath {
  return builder.add({ detail: null, ...content, ...base(event, key), kind: 'line', eventType: event.type })
}

export function error(
  builder: RowsBuilder,
  event: FailureEvent,
  row: Pick<ErrorRow, 'title' | 'recovers'>,
  key?: string,
): RowPath {
  return builder.add({ ...row, text: failureReason(event), ...base(event, key), kind: 'error', eventType: event.type })
}

type ProvisioningEvent = LogEvent<
  | 'sandbox.pending'
  | 'sandbox.preparing'
  | 'sandbox.creating'
  | 'sandbox.uploading'
  | 'sandbox.starting'
  | 'sandbox.spawned'
  | 'sandbox.running'
  | 'sandbox.retrying'
>

const PROVISIONING: Readonly<Record<ProvisioningEvent['type'], [Tone, string]>> = {
  'sandbox.pending': ['quiet', 'Sandbox pending'],
  'sandbox.preparing': ['quiet', 'Preparing branch'],
  'sandbox.creating': ['quiet', 'Creating sandbox'],
  'sandbox.uploading': ['quiet', 'Uploading worker'],
  'sandbox.starting': ['quiet', 'Starting worker'],
  'sandbox.spawned': ['quiet', 'Worker started'],
  'sandbox.running': ['quiet', 'Sandbox running'],
  'sandbox.retrying': ['warn', 'Step failed. Retrying…'],
}

/** The stages of creating a sandbox share one line, which shows the current stage. */
export function provisioning(builder: RowsBuilder, event: ProvisioningEvent): RowPath {
  const [tone, text] = PROVISIONING[event.type]
  const detail = someText<'sandbox.retrying'>(event.data, 'error')
  return follow(builder, event, { tone, text, detail }, 'sandbox')
}

type WorkspaceEvent = LogEvent<'workspace.cloning' | 'workspace.ready'>

const WORKSPACE: Readonly<Record<WorkspaceEvent['type'], [Tone, string]>> = {
  'workspace.cloning': ['quiet', 'Cloning repository'],
  'workspace.ready': ['quiet', 'Repository cloned'],
}

export function workspace(builder: RowsBuilder, event: WorkspaceEvent): RowPath {
  const [tone, text] = WORKSPACE[event.type]
  const branch = firstText(event.data, 'branch')
  const repository = firstText(event.data, 'repository')
  const detail = branch === null ? repository : `${repository ?? ''} (${branch})`.trim()
  return follow(builder, event, { tone, text, detail }, 'workspace')
}

/** How much of a commit's name people read. */
const SHORT_COMMIT = 8

/** Commits of the agent have reached the repository. */
export function pushed(builder: RowsBuilder, event: LogEvent<'workspace.pushed'>): RowPath {
  const count = number(event.data, 'commits') ?? 0
  const commits = count === 1 ? '1 commit' : `${count} commits`
  const rewritten = flag(event.data, 'forced')
  const content = rewritten ? `Branch rewritten and pushed: ${commits}` : `Pushed ${commits}`
  const branch = firstText(event.data, 'branch') ?? ''
  const commit = firstText(event.data, 'commit')?.slice(0, SHORT_COMMIT) ?? ''
  const tone = rewritten ? 'warn' : 'good'
  return line(builder, event, { tone, text: content, detail: `${branch} ${commit}`.trim() })
}

/** The agent tried to push something else than its branch. */
export function pushRejected(builder: RowsBuilder, event: LogEvent<'workspace.push_rejected'>): RowPath {
  const name = firstText(event.data, 'ref_name') ?? 'unknown reference'
  return line(builder, event, {
    tone: 'warn',
    text: `Push rejected: ${name}`,
    detail: firstText(event.data, 'reason'),
  })
}

export function pushFailed(builder: RowsBuilder, event: LogEvent<'workspace.push_failed'>): RowPath {
  const recovers = flag(event.data, 'will_retry')
  return error(builder, event, { title: recovers ? 'Push failed. Retrying…' : 'Push failed', recovers })
}

/** Work that is on no branch can be downloaded. */
export function kept(builder: RowsBuilder, event: LogEvent<'workspace.kept'>): RowPath {
  const count = number(event.data, 'left_out_count') ?? 0
  const [first] = list(event.data, 'left_out')
  const path = isObject(first) ? firstText(first, 'path') : null
  const detail =
    count === 0 ? null : `Not included: ${path ?? 'some files'}${count > 1 ? ` and ${count - 1} more` : ''}`
  return line(builder, event, { tone: count === 0 ? 'good' : 'warn', text: 'Work kept for download', detail })
}

export function keepFailed(builder: RowsBuilder, event: LogEvent<'workspace.keep_failed'>): RowPath {
  return error(builder, event, { title: 'The work could not be kept', recovers: true })
}

type ClosingEvent = LogEvent<'sandbox.completing' | 'sandbox.completed' | 'sandbox.released'>

export function closing(builder: RowsBuilder, event: ClosingEvent): RowPath {
  const known = builder.paths.get('sandbox-end')
  if (event.type === 'sandbox.released' && known !== undefined) {
    // The line already shows that the sandbox ended; releasing its machine adds nothing.
    builder.change(known, event)
    return known
  }
  if (event.type === 'sandbox.completing') {
    return follow(builder, event, { tone: 'quiet', text: 'Shutting down sandbox' }, 'sandbox-end')
  }
  interruptRunning(builder, event, 'everything')
  const text = event.type === 'sandbox.completed' ? 'Sandbox completed' : 'Sandbox released'
  return follow(builder, event, { tone: 'quiet', text }, 'sandbox-end')
}

type TerminatedEvent = LogEvent<'sandbox.terminated' | 'sandbox.terminated_idle'>

export function terminated(builder: RowsBuilder, event: TerminatedEvent): RowPath {
  interruptRunning(builder, event, 'everything')
  const idle = event.type === 'sandbox.terminated_idle'
  const content = idle ? 'Sandbox stopped: idle for too long' : 'Sandbox stopped'
  const detail = firstText(event.data, 'message', 'reason')
  return line(
    builder,
    event,
    { tone: 'warn', text: content, detail },
    builder.paths.get('sandbox-end') ? undefined : 'sandbox-end',
  )
}

/** Who has the new token can report in the name of the worker, so people should see this. */
export function tokenRotated(builder: RowsBuilder, event: LogEvent<'sandbox.token_rotated'>): RowPath {
  const by: JsonObject = object(event.data, 'by') ?? {}
  const caller = { kind: firstText(by, 'kind') ?? 'unknown', id: firstText(by, 'id') }
  return line(builder, event, { tone: 'warn', text: 'Worker token replaced', detail: `by ${principalName(caller)}` })
}

type FailedEvent = LogEvent<'sandbox.failed' | 'workspace.failed' | 'agent.failed'>

export function failed(builder: RowsBuilder, event: FailedEvent): RowPath {
  interruptRunning(builder, event, 'everything')
  const key = event.type === 'sandbox.failed' && !builder.paths.get('sandbox-end') ? 'sandbox-end' : undefined
  const titles: Readonly<Record<FailedEvent['type'], string>> = {
    'sandbox.failed': 'Sandbox failed',
    'workspace.failed': 'Failed to clone repository',
    'agent.failed': 'Task failed',
  }
  return error(builder, event, { title: titles[event.type], recovers: false }, key)
}

export function streamError(builder: RowsBuilder, event: LogEvent<'agent.stream_error'>): RowPath {
  interruptRunning(builder, event, 'everything')
  const recovers = flag(event.data, 'restarts')
  return error(builder, event, { title: recovers ? 'Agent crashed. Restarting…' : 'Agent crashed', recovers })
}

export function agentError(builder: RowsBuilder, event: LogEvent<'agent.error'>): RowPath {
  return error(builder, event, { title: 'Agent error', recovers: true })
}

export function started(builder: RowsBuilder, event: LogEvent<'agent.started'>): RowPath {
  // A killed worker could not report the end of its agent.
  interruptRunning(builder, event, 'everything')
  const { data } = event
  const resumed = flag(data, 'is_resuming')
  const agent = firstText(data, 'sdk')
  const name = agent === null ? 'Agent' : `Agent (${agent})`
  const text = resumed ? `${name} started, resuming its session` : `${name} started`
  return line(builder, event, { tone: 'info', text, detail: firstText(data, 'task') })
}

export function completed(builder: RowsBuilder, event: LogEvent<'agent.completed'>): RowPath {
  interruptRunning(builder, event, 'everything')
  if (isFalse(event.data, 'success')) return error(builder, event, { title: 'Task failed', recovers: false })
  const reason = firstText(event.data, 'stop_reason')
  return line(builder, event, { tone: 'good', text: 'Task completed', detail: reason === 'completed' ? null : reason })
}

export function waiting(builder: RowsBuilder, event: LogEvent<'agent.waiting'>): RowPath {
  return line(builder, event, {
    tone: 'quiet',
    text: 'Agent is waiting for a message',
    detail: firstText(event.data, 'message'),
  })
}

export function interrupted(builder: RowsBuilder, event: LogEvent<'agent.interrupted'>): RowPath {
  const reasons: Readonly<Record<string, string>> = {
    stop: 'All work stopped',
    max_duration: 'Turn stopped: time limit reached',
    shutdown: 'Turn stopped: worker is shutting down',
  }
  const reason = text(event.data, 'reason') ?? ''
  return line(builder, event, { tone: 'warn', text: reasons[reason] ?? 'Turn interrupted' })
}

export function shutdown(builder: RowsBuilder, event: LogEvent<'agent.shutdown'>): RowPath {
  interruptRunning(builder, event, 'everything')
  const reason = firstText(event.data, 'reason')
  const label = reason === 'complete' ? 'completed' : reason?.replaceAll('_', ' ')
  return line(builder, event, {
    tone: 'quiet',
    text: label === undefined ? 'Worker exited' : `Worker exited (${label})`,
  })
}

export function changesLeftOut(builder: RowsBuilder, event: LogEvent<'workspace.changes_left_out'>): RowPath {
  const count = number(event.data, 'count')
  return line(builder, event, { tone: 'warn', text: `Too many files changed at once: ${count ?? 'some'} not shown` })
}

export function snapshotsOff(builder: RowsBuilder, event: LogEvent<'workspace.snapshots_off'>): RowPath {
  const detail = firstText(event.data, 'reason')
  return line(builder, event, { tone: 'warn', text: 'File change tracking is off', detail })
}

export function networkDenied(builder: RowsBuilder, event: LogEvent<'network.denied'>): RowPath {
  const port = number(event.data, 'port')
  const count = number(event.data, 'count') ?? 1
  const host = `${firstText(event.data, 'host') ?? 'unknown host'}${port === null ? '' : `:${port}`}`
  const content = `Network access denied: ${host}${count > 1 ? ` (${count} times)` : ''}`
  return line(builder, event, { tone: 'warn', text: content, detail: firstText(event.data, 'reason') })
}

/** What the agent is isolated from. Only an agent that is not deserves attention. */
export function isolation(builder: RowsBuilder, event: LogEvent<'worker.isolation'>): RowPath {
  const tier = firstText(event.data, 'tier')
  const notCovered = notCoveredBy(event).join(' ')
  const detail = notCovered === '' ? null : notCovered
  if (tier === 'none') {
    return line(builder, event, { tone: 'warn', text: 'The agent is not isolated from this machine', detail })
  }
  return line(builder, event, { tone: 'quiet', text: `Isolation: ${tier ?? 'unknown'}`, detail })
}

type RefusalEventType = 'worker.event_refused' | 'worker.receipt_refused' | 'worker.transcript_refused'

type WorkerProblemEvent = LogEvent<
  | 'worker.outbox_full'
  | RefusalEventType
  | 'worker.transcript_behind'
  | 'worker.transcript_lost'
  | 'worker.spool_damaged'
>

/** Data that the worker could not deliver. */
export function workerProblem(builder: RowsBuilder, event: WorkerProblemEvent): RowPath {
  const content: Readonly<Record<WorkerProblemEvent['type'], string>> = {
    'worker.outbox_full': someFlag<'worker.outbox_full'>(event.data, 'ongoing')
      ? 'Worker disk is full: events are being dropped'
      : 'Worker disk has space again; some events were dropped',
    'worker.event_refused': 'Control plane rejected an event',
    'worker.receipt_refused': 'Control plane rejected a receipt',
    'worker.transcript_refused': "Control plane rejected part of the agent's transcript",
    'worker.transcript_behind': "Part of the agent's transcript is missing",
    'worker.transcript_lost': "The agent's transcript can no longer be saved",
    'worker.spool_damaged': 'Worker lost events that were stored on disk',
  }
  const dropped = someNumber<'worker.outbox_full'>(event.data, 'dropped')
  const detail =
    someText<RefusalEventType>(event.data, 'detail') ??
    someText<'worker.transcript_lost'>(event.data, 'error') ??
    someText<RefusalEventType | 'worker.transcript_lost'>(event.data, 'code') ??
    (dropped === null ? null : `${dropped} events`)
  return line(builder, event, { tone: 'warn', text: content[event.type], detail })
}

type EntityEvent = LogEvent<Extract<KnownEventType, `task.${string}` | `ticket.${string}`>>

/** Event types with the URL of a pull request. */
type PullRequestEventType =
  | 'task.pull_request_opened'
  | 'task.pull_request_closed'
  | 'task.feedback_received'
  | 'task.feedback_answered'
  | 'task.feedback_left'

type FailedTaskEventType = 'task.failed' | 'task.retrying'

/** Event types of tasks and tickets with a reason. */
type ReasonEventType =
  'task.failed' | 'task.cancelled' | 'ticket.transitioned' | 'ticket.timed_out' | 'ticket.blocked' | 'ticket.unblocked'

/** Lifecycle events of tasks and tickets, which have the same form. */
export function entityEvent(builder: RowsBuilder, event: EntityEvent): RowPath {
  const [entity = '', transition = ''] = event.type.split('.')
  const subject = entity === 'task' ? 'Task' : 'Ticket'
  const isBad = transition === 'failed' || transition === 'rejected' || transition === 'feedback_left'
  const isGood = transition === 'completed' || transition === 'approved' || transition === 'merged'
  const tone: Tone = isBad ? 'bad' : isGood ? 'good' : 'quiet'
  const detail =
    someText<FailedTaskEventType | 'task.cancelled'>(event.data, 'error_message') ??
    someText<FailedTaskEventType>(event.data, 'error') ??
    someText<ReasonEventType>(event.data, 'reason') ??
    someText<'ticket.rejected'>(event.data, 'rejection_reason') ??
    someText<'task.completed' | 'task.needs_revision'>(event.data, 'feedback') ??
    someText<PullRequestEventType>(event.data, 'url') ??
    someText<'task.branch_created'>(event.data, 'branch')
  return line(builder, event, { tone, text: `${subject} ${transition.replaceAll('_', ' ')}`, detail })
}

/** Keeps one line per subject and updates it with each event. */
function follow(builder: RowsBuilder, event: LogEvent, content: LineText, key: string): RowPath {
  const known = builder.paths.get(key)
  const row = known === undefined ? null : builder.changeIf(known, 'line', event)
  if (known === undefined) return line(builder, event, content, key)
  if (row === null) return line(builder, event, content)
  Object.assign(row, { detail: null, ...content, eventType: event.type } satisfies Partial<LineRow>)
  return known
}
