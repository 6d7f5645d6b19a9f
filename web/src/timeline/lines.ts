import type { JsonObject, KnownEventType } from '../api/contract'
import { base, type RowsBuilder, type RowPath } from './rows-builder'
import type { EventType, LogEvent } from './event'
import { firstText, flag, isFalse, isObject, list, number, object, someFlag, someNumber, someText, text } from './read'
import type { ErrorRow, LineRow, Tone } from './rows'
import { interruptRunning, decided } from './tools'

// Lifecycle events as one-line rows, or as error rows where a person should look.

type LineText = Pick<LineRow, 'tone' | 'text'> & Partial<Pick<LineRow, 'detail'>>

export function line(builder: RowsBuilder, event: LogEvent, content: LineText, key?: string): RowPath {
  return builder.add({ detail: null, ...content, ...base(event, key), kind: 'line', eventType: event.type })
}

export function error(
  builder: RowsBuilder,
  event: LogEvent,
  row: Pick<ErrorRow, 'title' | 'recovers'>,
  key?: string,
): RowPath {
  const text = someText<EventType>(event.data, 'error', 'message', 'reason') ?? 'No reason given.'
  return builder.add({ ...row, text, ...base(event, key), kind: 'error', eventType: event.type })
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
  const detail = someText(event.data, 'error')
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

type WorkerProblemEvent = LogEvent<
  | 'worker.outbox_full'
  | 'worker.event_refused'
  | 'worker.receipt_refused'
  | 'worker.transcript_refused'
  | 'worker.transcript_behind'
  | 'worker.transcript_lost'
  | 'worker.spool_damaged'
>

/** Data that the worker could not deliver. */
export function workerProblem(builder: RowsBuilder, event: WorkerProblemEvent): RowPath {
  const content: Readonly<Record<WorkerProblemEvent['type'], string>> = {
    'worker.outbox_full': someFlag(event.data, 'ongoing')
      ? 'Worker disk is full: events are being dropped'
      : 'Worker disk has space again; some events were dropped',
    'worker.event_refused': 'Control plane rejected an event',
    'worker.receipt_refused': 'Control plane rejected a receipt',
    'worker.transcript_refused': "Control plane rejected part of the agent's transcript",
    'worker.transcript_behind': "Part of the agent's transcript is missing",
    'worker.transcript_lost': "The agent's transcript can no longer be saved",
    'worker.spool_damaged': 'Worker lost events that were stored on disk',
  }
  const dropped = someNumber(event.data, 'dropped')
  const detail = someText(event.data, 'detail', 'error', 'code') ?? (dropped === null ? null : `${dropped} events`)
  return line(builder, event, { tone: 'warn', text: content[event.type], detail })
}

type EntityEvent = LogEvent<Extract<KnownEventType, `task.${string}` | `ticket.${string}`>>

/** Lifecycle events of tasks and tickets, which have the same form. */
export function entityEvent(builder: RowsBuilder, event: EntityEvent): RowPath {
  const [entity = '', transition = ''] = event.type.split('.')
  const subject = entity === 'task' ? 'Task' : 'Ticket'
  const isBad = transition === 'failed' || transition === 'rejected'
  const isGood = transition === 'completed' || transition === 'approved'
  const tone: Tone = isBad ? 'bad' : isGood ? 'good' : 'quiet'
  const detail = someText(event.data, 'error_message', 'error', 'reason', 'rejection_reason', 'feedback')
  return line(builder, event, { tone, text: `${subject} ${transition.replaceAll('_', ' ')}`, detail })
}

type SystemMessageEvent = LogEvent<'agent.system_message'>

/** A note about the agent's session. `null` if another event carries the same information. */
export function systemMessage(builder: RowsBuilder, event: SystemMessageEvent): RowPath | null {
  const metadata = object(event.data, 'metadata') ?? {}
  const subtype = firstText(event.data, 'subtype') ?? firstText(metadata, 'subtype') ?? ''
  switch (subtype) {
    case 'task_started':
      return taskStarted(builder, event, metadata)
    case 'task_notification':
      return taskEnded(builder, event, metadata)
    case 'task_updated':
      // A notification with more detail follows.
      return null
    case 'permission_denied':
      return decided(builder, event)
    case 'init':
      return line(builder, event, { tone: 'quiet', text: 'Session started', detail: sessionOf(metadata) })
    case 'api_retry': {
      const [attempt, max] = [number(metadata, 'attempt'), number(metadata, 'max_retries')]
      const count = attempt === null ? '' : ` (${attempt}${max === null ? '' : ` of ${max}`})`
      const text = `Model request failed. Retrying…${count}`
      return line(builder, event, { tone: 'warn', text, detail: firstText(metadata, 'error') })
    }
    case 'compact_boundary':
      return line(builder, event, { tone: 'info', text: 'Conversation compacted' })
    default: {
      const text = subtype === '' ? 'Session note' : capitalised(subtype.replaceAll('_', ' '))
      return line(builder, event, {
        tone: 'quiet',
        text,
        detail: firstText(event.data, 'message') ?? brief(metadata),
      })
    }
  }
}

/** A sub-agent or a background command that the agent reports. */
function taskStarted(builder: RowsBuilder, event: LogEvent, metadata: JsonObject): RowPath {
  const path = pathOfTask(builder, metadata)
  if (path === undefined) {
    return line(builder, event, {
      tone: 'quiet',
      text: 'Background task started',
      detail: firstText(metadata, 'description'),
    })
  }
  const row = builder.change(path, event)
  if (row.kind === 'subagent') row.background = flag(metadata, 'is_backgrounded')
  return path
}

function taskEnded(builder: RowsBuilder, event: LogEvent, metadata: JsonObject): RowPath {
  const path = pathOfTask(builder, metadata)
  const ended = text(metadata, 'status') === 'completed'
  const row = path === undefined ? null : builder.changeIf(path, 'subagent', event)
  if (path !== undefined && row !== null) {
    const usage = object(metadata, 'usage')
    row.tokens = (usage === null ? null : number(usage, 'total_tokens')) ?? row.tokens
    if (row.background) {
      builder.running.delete(row.key)
      row.status = ended ? 'done' : 'failed'
      row.result = firstText(metadata, 'summary') ?? row.result
      row.durationMs = (usage === null ? null : number(usage, 'duration_ms')) ?? row.durationMs
    }
    return path
  }
  const content = ended ? 'Background task completed' : 'Background task failed'
  return line(builder, event, { tone: ended ? 'quiet' : 'warn', text: firstText(metadata, 'summary') ?? content })
}

function pathOfTask(builder: RowsBuilder, metadata: JsonObject): RowPath | undefined {
  const id = firstText(metadata, 'tool_use_id')
  return id === null ? undefined : builder.paths.get(`tool:${id}`)
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

function sessionOf(metadata: JsonObject): string | null {
  const agent = object(metadata, 'agent')
  const model = firstText(metadata, 'model') ?? (agent === null ? null : firstText(agent, 'name'))
  const tools = list(metadata, 'tools').length
  const parts = [model, tools > 0 ? `${tools} tools` : null].filter((part) => part !== null)
  return parts.length === 0 ? null : parts.join(', ')
}

/** A short summary of data without a text of its own. */
function brief(data: JsonObject): string | null {
  const parts = Object.entries(data).flatMap(([name, value]) =>
    isObject(value) || Array.isArray(value) || value === null ? [] : [`${name}: ${String(value)}`],
  )
  return parts.length === 0 ? null : parts.slice(0, 4).join(', ').slice(0, 300)
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
