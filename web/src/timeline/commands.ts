import type { JsonValue } from '../api/contract'
import type { LogEvent } from './event'
import { firstText, flag, isObject, number, object, text, toolUseId } from './read'
import type { ToolRow } from './rows'
import { output, readDecision, toolInput } from './calls'
import { type MapChange, VersionedMap } from './versions'

/** A command that the agent ran in a shell. */
export interface Command {
  readonly seq: number
  readonly toolUseId: string | null
  readonly command: string
  readonly description: string | null
  /** `null` while it runs. */
  readonly output: string | null
  /** `null` where nobody told it. */
  readonly exitCode: number | null
  readonly status: ToolRow['status']
  readonly at: string
  readonly durationMs: number | null
  /** Where the rest of a long output is: the event's number. */
  readonly rest: number | null
}

export interface CommandMemory {
  readonly places: VersionedMap<number>
  /** Places of those that run, the oldest first, and which sub-agent runs each. */
  readonly running: ReadonlyMap<number, string | null>
  /** Calls that somebody did not allow. */
  readonly refused: ReadonlySet<string>
  /** Sub-agents that work on when the turn is over. */
  readonly background: ReadonlySet<string>
}

export const noCommands: CommandMemory = {
  places: new VersionedMap(),
  running: new Map(),
  refused: new Set(),
  background: new Set(),
}

/** The commands of a run, in the making. */
export class Commands {
  readonly list: Command[]
  private readonly places: MapChange<number>
  private readonly running: Map<number, string | null>
  private readonly refused: Set<string>
  private readonly background: Set<string>

  constructor(list: readonly Command[], memory: CommandMemory) {
    this.list = [...list]
    this.places = memory.places.change()
    this.running = new Map(memory.running)
    this.refused = new Set(memory.refused)
    this.background = new Set(memory.background)
  }

  memory(): CommandMemory {
    const { running, refused, background } = this
    return { places: this.places.finish(), running, refused, background }
  }

  take(event: LogEvent): void {
    switch (event.type) {
      case 'agent.tool_use':
        this.begin(event)
        break
      case 'agent.tool_completed':
        this.end(event)
        break
      case 'agent.tool_result':
      case 'agent.user_tool_result':
        this.answer(event)
        break
      case 'agent.permission_decided':
        this.noteDecision(event)
        break
      case 'agent.system_message':
        if (text(event.data, 'subtype') === 'permission_denied') this.noteDecision(event)
        this.noteBackground(event)
        break
      case 'agent.subagent_invoked':
        this.noteBackground(event)
        break
      case 'agent.turn_completed':
      case 'agent.turn_complete':
        this.cutOff((parent) => parent === null || !this.background.has(parent))
        break
      case 'agent.started':
      case 'agent.completed':
      case 'agent.failed':
      case 'agent.stream_error':
      case 'agent.shutdown':
      case 'workspace.failed':
      case 'sandbox.completed':
      case 'sandbox.failed':
      case 'sandbox.terminated':
      case 'sandbox.terminated_idle':
        this.cutOff(() => true)
        break
    }
  }

  private begin(event: LogEvent): number | null {
    const input = toolInput(event)
    const command = text(input, 'command')
    if (command === null) return null
    const id = toolUseId(event.data)
    const known = id === null ? undefined : this.places.get(id)
    if (known !== undefined) return known
    const index = this.list.length
    const description = firstText(input, 'description')
    const unknown = { output: null, exitCode: null, durationMs: null, rest: null }
    this.list.push({ seq: event.seq, toolUseId: id, command, description, status: 'running', at: event.at, ...unknown })
    if (id !== null) this.places.set(id, index)
    this.running.set(index, firstText(event.data, 'parent_tool_use_id'))
    return index
  }

  private end(event: LogEvent): void {
    const id = toolUseId(event.data)
    const known = id === null ? this.matching(event) : this.places.get(id)
    const told = output(event)
    this.finish(known ?? this.begin(event), event, told.output, told.rest)
  }

  private answer(event: LogEvent): void {
    const index = this.places.get(toolUseId(event.data) ?? '')
    // Whoever tells both has told the end, or will.
    if (index === undefined || this.list[index]?.output !== null) return
    this.finish(index, event, event.data['result'] ?? event.data['content'] ?? null, null)
  }

  private finish(index: number | null, event: LogEvent, told: JsonValue, rest: number | null): void {
    const command = index === null ? undefined : this.list[index]
    if (index === null || command === undefined) return
    const failed = flag(event.data, 'is_error')
    const refused = command.toolUseId !== null && this.refused.has(command.toolUseId)
    this.running.delete(index)
    this.list[index] = {
      ...command,
      // An end without words leaves what was printed before.
      output: told === null ? (command.output ?? '') : printed(told),
      exitCode: exitCodeOf(told, failed),
      status: failed ? (refused ? 'refused' : 'failed') : 'done',
      durationMs: number(event.data, 'duration_ms') ?? command.durationMs,
      rest,
    }
  }

  /** The oldest that runs with the same text, for workers that name no ids. */
  private matching(event: LogEvent): number | undefined {
    const command = text(toolInput(event), 'command')
    for (const index of this.running.keys()) if (this.list[index]?.command === command) return index
    return undefined
  }

  private noteDecision(event: LogEvent): void {
    const { id, allowed } = readDecision(event)
    if (id !== null && !allowed) this.refused.add(id)
  }

  private noteBackground({ data }: LogEvent): void {
    const metadata = object(data, 'metadata') ?? {}
    const parent = firstText(data, 'parent_tool_use_id')
    const id = toolUseId(data) ?? firstText(metadata, 'tool_use_id')
    const isBackground = flag(metadata, 'is_backgrounded') || (parent !== null && this.background.has(parent))
    if (id !== null && isBackground) this.background.add(id)
  }

  private cutOff(isOver: (parent: string | null) => boolean): void {
    for (const [index, parent] of this.running) {
      const command = this.list[index]
      if (command === undefined || !isOver(parent)) continue
      this.running.delete(index)
      this.list[index] = { ...command, status: 'interrupted' }
    }
  }
}

function printed(told: JsonValue): string {
  if (typeof told === 'string') return told
  if (!isObject(told)) return told === null ? '' : JSON.stringify(told)
  const parts = [text(told, 'stdout'), text(told, 'stderr'), text(told, 'output')].filter((part) => part !== null && part !== '')
  return parts.length > 0 ? parts.join('\n') : JSON.stringify(told)
}

function exitCodeOf(told: JsonValue, failed: boolean): number | null {
  if (isObject(told)) return number(told, 'exit_code') ?? number(told, 'exitCode')
  const code = typeof told === 'string' && failed ? /^Exit code (\d+)/.exec(told)?.[1] : undefined
  if (code !== undefined) return Number(code)
  return failed ? null : 0
}
