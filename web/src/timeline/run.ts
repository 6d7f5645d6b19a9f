import type { LogEvent } from './event'
import { Commands, type CommandsFoldState, type Command, noCommands } from './commands'
import { errorOf } from './event-error'
import { Files, type FileState } from './file-states'
import { itemsAfter, itemsNumbered, isPlanTool, shown } from './plans'
import { hasTrait } from './event-traits'
import { isSentAgain } from './messages'
import { parentOf, turnOf } from './place'
import { isPreview, readForwardedPort, readPreview } from './previews'
import { notCoveredBy } from './isolation'
import { firstText, isFalse, number, object } from './read'
import type { PlanItem, PreviewRow } from './rows'
import type { PlannedItem } from './rows-builder'
import { toolName } from './calls'
import { largest, noUsage, readUsage, summed, type Usage } from './usage'

export type { Command } from './commands'
export type { FileState } from './file-states'

/** Facts about a run, as of the last event it includes. */
export interface Run {
  readonly last: number
  readonly startedAt: string | null
  readonly endedAt: string | null
  /** `null` while it runs, and if it was stopped before it finished. */
  readonly outcome: 'completed' | 'failed' | null
  readonly stopReason: string | null
  readonly sessionId: string | null
  readonly model: string | null
  readonly agent: string | null
  /** How the agent is isolated: `namespaces`, `landlock`, `sandbox-exec` or `none`. */
  readonly isolation: string | null
  /** What the isolation does not cover, in sentences. */
  readonly notCovered: readonly string[]
  readonly costUsd: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cacheReadTokens: number
  readonly cacheWriteTokens: number
  /** The highest turn number. */
  readonly turns: number
  /** One per path, in the order of the first change. */
  readonly files: readonly FileState[]
  readonly commands: readonly Command[]
  readonly counts: Counts
  /** All errors, including failed tools. */
  readonly errors: readonly RunError[]
  /** The plan of the main agent; plans of sub-agents are in their rows. */
  readonly plan: readonly PlanItem[]
  readonly preview: Preview | null
  /** State for applying further events. */
  readonly foldState: RunFoldState
}

export interface Counts {
  readonly events: number
  /** Calls of tools, sub-agents and skills. */
  readonly toolUses: number
  readonly fileEdits: number
  /** Messages to the agent. One that was sent again counts once. */
  readonly messages: number
  readonly errors: number
}

export interface RunError {
  readonly seq: number
  readonly at: string
  readonly text: string
}

export interface Preview {
  readonly status: PreviewRow['status']
  readonly port: number | null
  /** The port of the sandbox's machine that leads to it, if it is another one. */
  readonly forwardedPort: number | null
  readonly url: string | null
  readonly framework: string | null
  /** Of the last event about it. */
  readonly seq: number
}

interface RunFoldState {
  readonly commands: CommandsFoldState
  readonly planned: readonly PlannedItem[]
  /** Sum over the turns. */
  readonly summed: Usage
  /** The largest reported totals, for logs without turn events or with turns that are not loaded. */
  readonly reported: Usage
}

export const emptyRun: Run = {
  last: 0,
  startedAt: null,
  endedAt: null,
  outcome: null,
  stopReason: null,
  sessionId: null,
  model: null,
  agent: null,
  isolation: null,
  notCovered: [],
  ...noUsage,
  turns: 0,
  files: [],
  commands: [],
  counts: { events: 0, toolUses: 0, fileEdits: 0, messages: 0, errors: 0 },
  errors: [],
  plan: [],
  preview: null,
  foldState: { commands: noCommands, planned: [], summed: noUsage, reported: noUsage },
}

/** Adds events, which must ascend; known events are ignored. The given run is not modified. */
export function advance(run: Run, events: readonly LogEvent[]): Run {
  const added = events.filter((event) => event.seq > run.last)
  if (added.length === 0) return run
  const files = new Files(run.files)
  const commands = new Commands(run.commands, run.foldState.commands)
  const errors = [...run.errors]
  const next: Changing = { ...run, counts: { ...run.counts }, foldState: { ...run.foldState } }
  for (const event of added) {
    if (event.seq <= next.last) continue
    next.last = event.seq
    next.counts.events += 1
    next.turns = Math.max(next.turns, turnOf(event) ?? 0)
    commands.apply(event)
    if (event.type === 'agent.file_edited') files.apply(event)
    const error = errorOf(event)
    if (error !== null) errors.push({ seq: event.seq, at: event.at, text: error })
    count(next, event, error)
    Object.assign(next, lifecycleAfter(next, event), aboutAgent(next, event))
    next.preview = previewAfter(next.preview, event)
    applyPlan(next, event)
    applyUsage(next, event)
  }
  next.foldState.commands = commands.foldState()
  return {
    ...next,
    files: files.states,
    commands: commands.list,
    errors,
    ...largest(next.foldState.summed, next.foldState.reported),
  }
}

type Mutable<Type> = { -readonly [Field in keyof Type]: Type[Field] }

type Changing = Mutable<Omit<Run, 'counts' | 'foldState'>> & {
  counts: Mutable<Counts>
  foldState: Mutable<RunFoldState>
}

function count({ counts }: Changing, event: LogEvent, error: string | null): void {
  if (error !== null) counts.errors += 1
  if (hasTrait(event.type, 'begins_call')) counts.toolUses += 1
  else if (event.type === 'agent.file_edited') counts.fileEdits += 1
  else if (event.type === 'message.queued' && !isSentAgain(event)) counts.messages += 1
}

/** Start, end and outcome. An ended run does not start again. */
function lifecycleAfter(run: Changing, event: LogEvent): Partial<Run> {
  const { at } = event
  switch (event.type) {
    case 'agent.started':
      return { startedAt: run.startedAt ?? at }
    case 'agent.completed': {
      // OmoiOS emits it after every query; the last one counts.
      const outcome = isFalse(event.data, 'success') ? 'failed' : 'completed'
      return { outcome, stopReason: firstText(event.data, 'stop_reason'), endedAt: at }
    }
    case 'agent.failed':
      return { outcome: 'failed', stopReason: firstText(event.data, 'stop_reason'), endedAt: at }
    case 'sandbox.failed':
      if (run.outcome !== null) return {}
      return { outcome: 'failed', stopReason: firstText(event.data, 'reason'), endedAt: at }
    case 'sandbox.terminated':
    case 'sandbox.terminated_idle':
      return run.outcome === null ? { stopReason: firstText(event.data, 'reason'), endedAt: at } : {}
    default:
      return {}
  }
}

function aboutAgent(run: Changing, event: LogEvent): Partial<Run> {
  switch (event.type) {
    case 'worker.isolation':
      // A restarted worker may have another isolation.
      return { isolation: firstText(event.data, 'tier') ?? run.isolation, notCovered: notCoveredBy(event) }
    case 'agent.started':
      return {
        agent: firstText(event.data, 'sdk') ?? run.agent,
        model: firstText(event.data, 'model') ?? run.model,
        sessionId: firstText(event.data, 'session_id') ?? run.sessionId,
      }
    case 'agent.system_message': {
      const metadata = object(event.data, 'metadata') ?? {}
      return {
        model: firstText(metadata, 'model') ?? run.model,
        sessionId: firstText(metadata, 'session_id') ?? run.sessionId,
      }
    }
    case 'agent.assistant_message':
      return { model: run.model ?? firstText(event.data, 'model') }
    case 'agent.turn_completed':
    case 'agent.turn_complete':
    case 'agent.completed':
    case 'agent.failed':
      return { sessionId: firstText(event.data, 'session_id') ?? run.sessionId }
    default:
      return {}
  }
}

/** The preview to show: of several ports, the one that became ready last. */
function previewAfter(before: Preview | null, event: LogEvent): Preview | null {
  if (hasTrait(event.type, 'ends_sandbox'))
    return before === null || before.status === 'failed' ? before : { ...before, status: 'stopped' }
  if (!isPreview(event)) return before
  const { status, port, url, framework } = readPreview(event)
  const forwardedPort = readForwardedPort(event)
  const seq = event.seq
  if (before?.port === port) {
    return { status, port, forwardedPort, url: url ?? before.url, framework: framework ?? before.framework, seq }
  }
  return before?.status === 'ready' && status !== 'ready'
    ? before
    : { status, port, forwardedPort, url, framework, seq }
}

function applyPlan(run: Changing, event: LogEvent): void {
  if (parentOf(event) !== null) return
  const before = run.foldState.planned
  if (event.type === 'agent.plan' || (event.type === 'agent.tool_use' && isPlanTool(toolName(event)))) {
    run.foldState.planned = itemsAfter(before, event)
  } else if (event.type === 'agent.tool_completed' && isPlanTool(toolName(event))) {
    run.foldState.planned = itemsNumbered(before, event)
  }
  if (run.foldState.planned !== before) run.plan = run.foldState.planned.map(shown)
}

function applyUsage(run: Changing, event: LogEvent): void {
  switch (event.type) {
    case 'agent.turn_completed':
      run.foldState.summed = summed(run.foldState.summed, readUsage(event.data))
      run.foldState.reported = largest(run.foldState.reported, {
        ...noUsage,
        costUsd: number(event.data, 'total_cost_usd') ?? 0,
      })
      break
    case 'agent.turn_complete':
    case 'agent.completed':
    case 'agent.failed': {
      const usage = readUsage(event.data)
      // Other workers report the total under this name.
      const total = number(event.raw, 'total_cost_usd')
      const costUsd = Math.max(usage.costUsd, total ?? 0)
      run.foldState.reported = largest(run.foldState.reported, { ...usage, costUsd })
      break
    }
    case 'continuous.completed':
    case 'iteration.completed': {
      const costUsd = number(event.data, 'total_cost_usd') ?? 0
      run.foldState.reported = largest(run.foldState.reported, { ...noUsage, costUsd })
      break
    }
    default:
      break
  }
}
