import type { JsonValue } from '../api/contract'
import type { LogEvent } from './event'
import { firstText, flag, isObject, json, number, object, someNumber, text } from './read'
import type { ToolRow } from './rows'
import { output, readDecision, toolInput, toolUseId, type DecisionEvent, type ResultEvent } from './calls'
import { hasTrait } from './event-traits'
import { type MapChange, VersionedMap } from './versioned-map'

/** A command that the agent ran in a shell. */
export interface Command {
  readonly seq: number
  readonly toolUseId: string | null
  readonly command: string
  readonly description: string | null
  /** `null` while it runs. */
  readonly output: string | null
  /** `null` if it was not reported. */
  readonly exitCode: number | null
  readonly status: ToolRow['status']
  readonly at: string
  readonly durationMs: number | null
  /** Sequence number of the event whose body has the full output, if `output` is truncated. */
  readonly rest: number | null
}

export interface CommandsFoldState {
  readonly indexes: VersionedMap<number>
  /** Positions of running commands, oldest first, with the sub-agent that runs each. */
  readonly running: ReadonlyMap<number, string | null>
  /** Tool calls whose permission was denied. */
  readonly denied: ReadonlySet<string>
  /** Sub-agents that continue after the turn has ended. */
  readonly background: ReadonlySet<string>
}

export const noCommands: CommandsFoldState = {
  indexes: new VersionedMap(),
  running: new Map(),
  denied: new Set(),
  background: new Set(),
}

type BeginEvent = LogEvent<'agent.tool_use'>

type EndEvent = LogEvent<'agent.tool_completed'>

/** Builds the list of commands of a run. */
export class Commands {
  readonly list: Command[]
  private readonly indexes: MapChange<number>
  private readonly running: Map<number, string | null>
  private readonly denied: Set<string>
  private readonly background: Set<string>

  constructor(list: readonly Command[], foldState: CommandsFoldState) {
    this.list = [...list]
    this.indexes = foldState.indexes.change()
    this.running = new Map(foldState.running)
    this.denied = new Set(foldState.denied)
    this.background = new Set(foldState.background)
  }

  foldState(): CommandsFoldState {
    const { running, denied, background } = this
    return { indexes: this.indexes.finish(), running, denied, background }
  }

  apply(event: LogEvent): void {
    switch (event.type) {
      case 'agent.tool_use':
        this.begin(event)
        break
      case 'agent.tool_completed':
        this.end(event)
        break
      case 'agent.tool_result':
      case 'agent.user_tool_result':
        this.applyResult(event)
        break
      case 'agent.permission_decided':
        this.applyDecision(event)
        break
      case 'agent.system_message':
        if (text(event.data, 'subtype') === 'permission_denied') this.applyDecision(event)
        this.applyBackground(event)
        break
      case 'agent.subagent_invoked':
        this.applyBackground(event)
        break
      case 'agent.turn_completed':
      case 'agent.turn_complete':
        this.interrupt((parent) => parent === null || !this.background.has(parent))
        break
      default:
        if (hasTrait(event.type, 'ends_calls') || hasTrait(event.type, 'ends_sandbox')) this.interrupt(() => true)
    }
  }

  private begin(event: BeginEvent | EndEvent): number | null {
    const input = toolInput(event)
    const command = text(input, 'command')
    if (command === null) return null
    const id = toolUseId(event)
    const known = id === null ? undefined : this.indexes.get(id)
    if (known !== undefined) return known
    const index = this.list.length
    const description = firstText(input, 'description')
    const unknown = { output: null, exitCode: null, durationMs: null, rest: null }
    this.list.push({ seq: event.seq, toolUseId: id, command, description, status: 'running', at: event.at, ...unknown })
    if (id !== null) this.indexes.set(id, index)
    this.running.set(index, firstText(event.data, 'parent_tool_use_id'))
    return index
  }

  private end(event: EndEvent): void {
    const id = toolUseId(event)
    const known = id === null ? this.matching(event) : this.indexes.get(id)
    const result = output(event)
    this.finish(known ?? this.begin(event), event, result.output, result.rest)
  }

  private applyResult(event: ResultEvent): void {
    const index = this.indexes.get(toolUseId(event) ?? '')
    // Workers that send both events report the output in the completion.
    if (index === undefined || this.list[index]?.output !== null) return
    this.finish(index, event, json(event.data, 'result'), null)
  }

  private finish(index: number | null, event: EndEvent | ResultEvent, value: JsonValue, rest: number | null): void {
    const command = index === null ? undefined : this.list[index]
    if (index === null || command === undefined) return
    const failed = flag(event.data, 'is_error')
    const denied = command.toolUseId !== null && this.denied.has(command.toolUseId)
    this.running.delete(index)
    this.list[index] = {
      ...command,
      // A completion without output keeps the earlier output.
      output: value === null ? (command.output ?? '') : formatOutput(value),
      exitCode: exitCodeOf(value, failed),
      status: failed ? (denied ? 'denied' : 'failed') : 'done',
      durationMs: someNumber<'agent.tool_completed'>(event.data, 'duration_ms') ?? command.durationMs,
      rest,
    }
  }

  /** The oldest running command with the same text, for workers that send no ids. */
  private matching(event: EndEvent): number | undefined {
    const command = text(toolInput(event), 'command')
    for (const index of this.running.keys()) if (this.list[index]?.command === command) return index
    return undefined
  }

  private applyDecision(event: DecisionEvent): void {
    const { id, allowed } = readDecision(event)
    if (id !== null && !allowed) this.denied.add(id)
  }

  private applyBackground(event: LogEvent<'agent.system_message' | 'agent.subagent_invoked'>): void {
    const isCall = event.type === 'agent.subagent_invoked'
    const metadata = isCall ? {} : (object(event.data, 'metadata') ?? {})
    const parent = isCall ? firstText(event.data, 'parent_tool_use_id') : null
    const id = isCall ? toolUseId(event) : firstText(metadata, 'tool_use_id')
    const isBackground = flag(metadata, 'is_backgrounded') || (parent !== null && this.background.has(parent))
    if (id !== null && isBackground) this.background.add(id)
  }

  private interrupt(shouldEnd: (parent: string | null) => boolean): void {
    for (const [index, parent] of this.running) {
      const command = this.list[index]
      if (command === undefined || !shouldEnd(parent)) continue
      this.running.delete(index)
      this.list[index] = { ...command, status: 'interrupted' }
    }
  }
}

function formatOutput(value: JsonValue): string {
  if (typeof value === 'string') return value
  if (!isObject(value)) return value === null ? '' : JSON.stringify(value)
  const parts = [text(value, 'stdout'), text(value, 'stderr'), text(value, 'output')].filter(
    (part) => part !== null && part !== '',
  )
  return parts.length > 0 ? parts.join('\n') : JSON.stringify(value)
}

function exitCodeOf(value: JsonValue, failed: boolean): number | null {
  if (isObject(value)) return number(value, 'exit_code') ?? number(value, 'exitCode')
  const code = typeof value === 'string' && failed ? /^Exit code (\d+)/.exec(value)?.[1] : undefined
  if (code !== undefined) return Number(code)
  return failed ? null : 0
}
