import type { JsonObject } from '../api/contract'
import { base, type Draft, type Place } from './draft'
import type { LogEvent } from './event'
import { firstText, flag, isObject, list, number, object, text } from './read'
import type { ErrorRow, LineRow, Tone } from './rows'
import { cutOff, decided } from './tools'

// What happens around the agent: one quiet sentence each, an error where somebody should look.

type Words = Pick<LineRow, 'tone' | 'text'> & Partial<Pick<LineRow, 'detail'>>

export function line(draft: Draft, event: LogEvent, words: Words, key?: string): Place {
  return draft.add({ detail: null, ...words, ...base(event, key), kind: 'line', eventType: event.type })
}

export function error(draft: Draft, event: LogEvent, row: Pick<ErrorRow, 'title' | 'recovers'>, key?: string): Place {
  const text = firstText(event.data, 'error', 'message', 'reason') ?? 'Nobody said why.'
  return draft.add({ ...row, text, ...base(event, key), kind: 'error', eventType: event.type })
}

const SPAWNING: Readonly<Record<string, [Tone, string]>> = {
  'sandbox.pending': ['quiet', 'A sandbox is planned'],
  'sandbox.preparing': ['quiet', 'The branch is being prepared'],
  'sandbox.creating': ['quiet', 'The sandbox is being created'],
  'sandbox.uploading': ['quiet', 'The worker is being put into the sandbox'],
  'sandbox.starting': ['quiet', 'The worker is being started'],
  'sandbox.spawned': ['quiet', 'The worker has been started'],
  'sandbox.running': ['quiet', 'The sandbox is running'],
  'sandbox.retrying': ['warn', 'A step failed and is tried again'],
}

/** A step on the way to a sandbox that runs: one line, which says how far it is. */
export function spawning(draft: Draft, event: LogEvent): Place {
  const [tone, text] = SPAWNING[event.type] ?? ['quiet', event.type]
  const detail = firstText(event.data, 'error')
  return follow(draft, event, { tone, text, detail }, 'sandbox')
}

const WORKSPACE: Readonly<Record<string, [Tone, string]>> = {
  'workspace.cloning': ['quiet', 'The code is being fetched'],
  'workspace.ready': ['quiet', 'The code is here'],
}

export function workspace(draft: Draft, event: LogEvent): Place {
  const [tone, text] = WORKSPACE[event.type] ?? ['quiet', event.type]
  const branch = firstText(event.data, 'branch')
  const repository = firstText(event.data, 'repository')
  const detail = branch === null ? repository : `${repository ?? ''} (${branch})`.trim()
  return follow(draft, event, { tone, text, detail }, 'workspace')
}

/** The sandbox is on its way out. */
export function closing(draft: Draft, event: LogEvent): Place {
  const known = draft.places.get('sandbox-end')
  if (event.type === 'sandbox.released' && known !== undefined) {
    // That its machine is given back is no news to whoever knows that it has ended.
    draft.change(known, event)
    return known
  }
  if (event.type === 'sandbox.completing') {
    return follow(draft, event, { tone: 'quiet', text: 'The sandbox is being taken down' }, 'sandbox-end')
  }
  cutOff(draft, event, 'everything')
  const text = event.type === 'sandbox.completed' ? 'The sandbox is done and gone' : 'The machine was given back'
  return follow(draft, event, { tone: 'quiet', text }, 'sandbox-end')
}

/** Somebody, or its silence, ended it. */
export function terminated(draft: Draft, event: LogEvent): Place {
  cutOff(draft, event, 'everything')
  const idle = event.type === 'sandbox.terminated_idle'
  const words = idle ? 'The sandbox was ended because nothing happened in it' : 'The sandbox was stopped'
  const detail = firstText(event.data, 'message', 'reason')
  return line(draft, event, { tone: 'warn', text: words, detail }, draft.places.get('sandbox-end') ? undefined : 'sandbox-end')
}

export function failed(draft: Draft, event: LogEvent): Place {
  cutOff(draft, event, 'everything')
  const key = event.type === 'sandbox.failed' && !draft.places.get('sandbox-end') ? 'sandbox-end' : undefined
  const titles: Readonly<Record<string, string>> = {
    'sandbox.failed': 'The sandbox failed',
    'workspace.failed': 'The code could not be fetched',
    'agent.failed': 'The task failed',
  }
  return error(draft, event, { title: titles[event.type] ?? 'It failed', recovers: false }, key)
}

export function streamError(draft: Draft, event: LogEvent): Place {
  cutOff(draft, event, 'everything')
  const recovers = flag(event.data, 'restarts')
  return error(draft, event, { title: recovers ? 'The agent died and is started again' : 'The agent died', recovers })
}

export function agentError(draft: Draft, event: LogEvent): Place {
  return error(draft, event, { title: 'Something went wrong', recovers: true })
}

export function started(draft: Draft, event: LogEvent): Place {
  // A worker that was killed could not say that its agent is gone.
  cutOff(draft, event, 'everything')
  const { data } = event
  const resumed = flag(data, 'is_resuming')
  const agent = firstText(data, 'sdk')
  const words = agent === null ? 'The agent was started' : `The agent was started (${agent})`
  const text = resumed ? `${words} and goes on with a session` : words
  return line(draft, event, { tone: 'info', text, detail: firstText(data, 'task') })
}

export function completed(draft: Draft, event: LogEvent): Place {
  cutOff(draft, event, 'everything')
  if (event.data['success'] === false) return error(draft, event, { title: 'The task failed', recovers: false })
  return line(draft, event, { tone: 'good', text: 'The task is done', detail: firstText(event.data, 'stop_reason', 'reason') })
}

export function waiting(draft: Draft, event: LogEvent): Place {
  return line(draft, event, { tone: 'quiet', text: 'The agent waits for a message', detail: firstText(event.data, 'message') })
}

export function interrupted(draft: Draft, event: LogEvent): Place {
  const reasons: Readonly<Record<string, string>> = {
    stop: 'Everything was stopped',
    max_duration: 'The turn was stopped: it took too long',
    shutdown: 'The turn was stopped: the worker leaves',
  }
  const reason = text(event.data, 'reason') ?? ''
  return line(draft, event, { tone: 'warn', text: reasons[reason] ?? 'The turn was interrupted' })
}

export function shutdown(draft: Draft, event: LogEvent): Place {
  cutOff(draft, event, 'everything')
  return line(draft, event, { tone: 'quiet', text: 'The worker has left', detail: firstText(event.data, 'reason') })
}

export function changesLeftOut(draft: Draft, event: LogEvent): Place {
  const count = number(event.data, 'count')
  return line(draft, event, { tone: 'warn', text: `Too many files changed at once: ${count ?? 'some'} are not shown` })
}

export function snapshotsOff(draft: Draft, event: LogEvent): Place {
  const detail = firstText(event.data, 'reason')
  return line(draft, event, { tone: 'warn', text: 'Changes to files are no longer looked for', detail })
}

/** Something could not be told, and what. */
export function workerTrouble(draft: Draft, event: LogEvent): Place {
  const words: Readonly<Record<string, string>> = {
    'worker.outbox_full': flag(event.data, 'ongoing')
      ? "The worker's disk is full: events are being left out"
      : "The worker's disk has room again; events are missing",
    'worker.event_refused': 'The plane refused an event',
    'worker.receipt_refused': 'The plane refused a receipt',
    'worker.transcript_refused': "The plane refused a part of the agent's record",
    'worker.transcript_behind': "A part of the agent's record is missing",
    'worker.transcript_lost': "The agent's record can no longer be kept",
    'worker.spool_damaged': 'The worker lost events that it had kept on disk',
  }
  const dropped = number(event.data, 'dropped')
  const detail = firstText(event.data, 'detail', 'error', 'code') ?? (dropped === null ? null : `${dropped} events`)
  return line(draft, event, { tone: 'warn', text: words[event.type] ?? event.type, detail })
}

/** Tasks and tickets, whose logs look the same. */
export function turnOfEntity(draft: Draft, event: LogEvent): Place {
  const [entity = '', turn = ''] = event.type.split('.')
  const subject = entity === 'task' ? 'The task' : 'The ticket'
  const isBad = turn === 'failed' || turn === 'rejected'
  const isGood = turn === 'completed' || turn === 'approved'
  const tone: Tone = isBad ? 'bad' : isGood ? 'good' : 'quiet'
  const detail = firstText(event.data, 'error_message', 'error', 'reason', 'feedback')
  return line(draft, event, { tone, text: `${subject}: ${turn.replaceAll('_', ' ')}`, detail })
}

/** Something about the agent's session. `null` for what another event says as well. */
export function systemMessage(draft: Draft, event: LogEvent): Place | null {
  const metadata = object(event.data, 'metadata') ?? {}
  const subtype = firstText(event.data, 'subtype') ?? firstText(metadata, 'subtype') ?? ''
  switch (subtype) {
    case 'task_started':
      return taskStarted(draft, event, metadata)
    case 'task_notification':
      return taskEnded(draft, event, metadata)
    case 'task_updated':
      // A notification follows and says more.
      return null
    case 'permission_denied':
      return decided(draft, event)
    case 'init':
      return line(draft, event, { tone: 'quiet', text: 'The session is open', detail: sessionOf(metadata) })
    case 'api_retry': {
      const [attempt, most] = [number(metadata, 'attempt'), number(metadata, 'max_retries')]
      const count = attempt === null ? '' : ` (${attempt}${most === null ? '' : ` of ${most}`})`
      const text = `The model did not answer and is asked again${count}`
      return line(draft, event, { tone: 'warn', text, detail: firstText(metadata, 'error') })
    }
    case 'compact_boundary':
      return line(draft, event, { tone: 'info', text: 'The conversation was made shorter to fit' })
    default: {
      const text = subtype === '' ? 'A note about the session' : capitalised(subtype.replaceAll('_', ' '))
      return line(draft, event, { tone: 'quiet', text, detail: firstText(event.data, 'message', 'content') ?? brief(metadata) })
    }
  }
}

/** A sub-agent, or a command in the background, that the agent's own machinery tells of. */
function taskStarted(draft: Draft, event: LogEvent, metadata: JsonObject): Place {
  const place = placeOfTask(draft, metadata)
  if (place === undefined) {
    return line(draft, event, { tone: 'quiet', text: 'Something began', detail: firstText(metadata, 'description') })
  }
  const row = draft.change(place, event)
  if (row.kind === 'subagent') row.background = flag(metadata, 'is_backgrounded')
  return place
}

function taskEnded(draft: Draft, event: LogEvent, metadata: JsonObject): Place {
  const place = placeOfTask(draft, metadata)
  const ended = text(metadata, 'status') === 'completed'
  const row = place === undefined ? null : draft.changeIf(place, 'subagent', event)
  if (place !== undefined && row !== null) {
    const usage = object(metadata, 'usage')
    row.tokens = (usage === null ? null : number(usage, 'total_tokens')) ?? row.tokens
    if (row.background) {
      draft.running.delete(row.key)
      row.status = ended ? 'done' : 'failed'
      row.result = firstText(metadata, 'summary') ?? row.result
      row.durationMs = (usage === null ? null : number(usage, 'duration_ms')) ?? row.durationMs
    }
    return place
  }
  const words = ended ? 'What ran in the background is done' : 'What ran in the background failed'
  return line(draft, event, { tone: ended ? 'quiet' : 'warn', text: firstText(metadata, 'summary') ?? words })
}

function placeOfTask(draft: Draft, metadata: JsonObject): Place | undefined {
  const id = firstText(metadata, 'tool_use_id')
  return id === null ? undefined : draft.places.get(`tool:${id}`)
}

/** One line for something that goes on: it says how far that is, wherever it began. */
function follow(draft: Draft, event: LogEvent, words: Words, key: string): Place {
  const known = draft.places.get(key)
  const row = known === undefined ? null : draft.changeIf(known, 'line', event)
  if (known === undefined) return line(draft, event, words, key)
  if (row === null) return line(draft, event, words)
  Object.assign(row, { detail: null, ...words, eventType: event.type } satisfies Partial<LineRow>)
  return known
}

function sessionOf(metadata: JsonObject): string | null {
  const agent = object(metadata, 'agent')
  const model = firstText(metadata, 'model') ?? (agent === null ? null : firstText(agent, 'name'))
  const tools = list(metadata, 'tools').length
  const parts = [model, tools > 0 ? `${tools} tools` : null].filter((part) => part !== null)
  return parts.length === 0 ? null : parts.join(', ')
}

/** A few words of what nobody has a sentence for. */
function brief(data: JsonObject): string | null {
  const parts = Object.entries(data).flatMap(([name, value]) =>
    isObject(value) || Array.isArray(value) || value === null ? [] : [`${name}: ${String(value)}`],
  )
  return parts.length === 0 ? null : parts.slice(0, 4).join(', ').slice(0, 300)
}

function capitalised(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1)
}
