import type { LogEvent } from './event'
import { parentOf, turnOf } from './place'
import type { PlanItem, Row, SubagentRow } from './rows'
import { MapChange, VersionedMap } from './versioned-map'

// Handlers of events (`known` in fold.ts) change rows through a `RowsBuilder`: it adds rows, finds the row that an event
// belongs to by its `RowPath`, and copies a row before its first change. What the next event needs to know about the
// earlier ones is the `FoldState`. Rows are never moved or reordered, so a path stays valid.

/** Where a row is: at the top level, or within the steps of a sub-agent. */
export interface RowPath {
  readonly within: RowPath | null
  readonly index: number
}

/** What folding the next event needs to know besides the rows. Immutable. */
export interface FoldState {
  /** By subject: `tool:<id>`, `message:<id>`, `echo:<uuid>`, `preview:<port>`, … */
  readonly paths: VersionedMap<RowPath>
  /** Running rows by key, oldest first. */
  readonly running: ReadonlyMap<string, RowPath>
  /** Tool calls with a result but no completion yet. Workers without ids may still send one. */
  readonly unconfirmed: readonly RowPath[]
  /** Messages that no worker has injected yet. */
  readonly undelivered: readonly RowPath[]
  /** Messages that were injected without a uuid and will be echoed by the agent. */
  readonly awaitingEcho: readonly RowPath[]
  /** Plans by the sub-agent's `tool_use_id`, or '' for the main agent. */
  readonly plans: ReadonlyMap<string, Plan>
  /** Whether the log is loaded from its first event. */
  readonly fromStart: boolean
}

export interface Plan {
  readonly items: readonly PlannedItem[]
  /** The row that shows its current state. */
  readonly path: RowPath | null
}

export interface PlannedItem extends PlanItem {
  readonly id: string | null
  /** The call that created it, until it has an id. */
  readonly createdBy: string | null
}

export const emptyFoldState: FoldState = {
  paths: new VersionedMap(),
  running: new Map(),
  unconfirmed: [],
  undelivered: [],
  awaitingEcho: [],
  plans: new Map(),
  fromStart: false,
}

/** Limit for rows that wait for an event which may never arrive. */
const MAX_REMEMBERED = 64

type RowOf<Kind extends Row['kind']> = Extract<Row, { kind: Kind }>

/** Extends rows with copy-on-write: rows and lists it does not own are copied once before the first change. */
export class RowsBuilder {
  readonly rows: Row[]
  readonly paths: MapChange<RowPath>
  readonly running: Map<string, RowPath>
  readonly plans: Map<string, Plan>
  unconfirmed: readonly RowPath[]
  undelivered: readonly RowPath[]
  awaitingEcho: readonly RowPath[]
  fromStart: boolean
  /** Rows that were merged into the row before them, by key. */
  readonly merged = new Map<string, string>()
  private readonly owned = new Set<object>()

  constructor(rows: readonly Row[], state: FoldState) {
    this.rows = [...rows]
    this.paths = state.paths.change()
    this.running = new Map(state.running)
    this.plans = new Map(state.plans)
    this.unconfirmed = state.unconfirmed
    this.undelivered = state.undelivered
    this.awaitingEcho = state.awaitingEcho
    this.fromStart = state.fromStart
  }

  foldState(): FoldState {
    const { running, unconfirmed, undelivered, awaitingEcho, plans, fromStart } = this
    return { paths: this.paths.finish(), running, unconfirmed, undelivered, awaitingEcho, plans, fromStart }
  }

  at(path: RowPath): Row {
    const row = this.list(path.within)[path.index]
    if (row === undefined) throw new Error('paths come from add, and rows never move')
    return row
  }

  /** The row at a path, as a mutable copy that this event changes. */
  change(path: RowPath, event: LogEvent): Row {
    this.touch(path.within, event.seq)
    const row = this.own(path)
    row.lastSeq = event.seq
    return row
  }

  /** Like `change`, or `null` if the row is of another kind. */
  changeIf<Kind extends Row['kind']>(path: RowPath, kind: Kind, event: LogEvent): RowOf<Kind> | null {
    return isOf(this.at(path), kind) ? narrowed(this.change(path, event), kind) : null
  }

  /** Appends a row to the steps of its sub-agent, or to the top level. */
  add(row: Row): RowPath {
    const within = this.containerOf(row.parent, row)
    this.touch(within, row.seq)
    const list = this.ownList(within)
    const isNamed = !row.key.startsWith('seq:')
    // Keys must be unique: React would treat two rows with the same key as one.
    if (isNamed && this.paths.get(row.key) !== undefined) row.key = `seq:${row.seq}`
    this.owned.add(row)
    list.push(row)
    const path = { within, index: list.length - 1 }
    if (isNamed) this.paths.set(row.key, path)
    return path
  }

  /** The previous row, if the given one is the last of its list. */
  before(path: RowPath): RowPath | null {
    const isLast = path.index === this.list(path.within).length - 1
    return isLast && path.index > 0 ? { within: path.within, index: path.index - 1 } : null
  }

  /** Removes the last row of a list after it was merged into the one before. */
  merge(last: RowPath, into: RowPath): void {
    const dropped = this.ownList(last.within).pop()
    if (dropped === undefined) return
    this.merged.set(dropped.key, this.at(into).key)
    this.paths.set(dropped.key, into)
  }

  /** The last row of the given sub-agent, or of the top level. */
  last(parent: string | null, event: LogEvent): RowPath | null {
    const within = this.containerOf(parent, event)
    const { length } = this.list(within)
    return length === 0 ? null : { within, index: length - 1 }
  }

  remember(paths: readonly RowPath[], path: RowPath): readonly RowPath[] {
    return [...paths, path].slice(-MAX_REMEMBERED)
  }

  /**
   * The sub-agent row whose steps contain it. A sub-agent whose call is not in the loaded part of the log gets a
   * placeholder row, which later events complete.
   */
  private containerOf(parent: string | null, of: { seq: number; at: string }): RowPath | null {
    if (parent === null) return null
    const known = this.paths.get(`tool:${parent}`)
    if (known !== undefined) return this.at(known).kind === 'subagent' ? known : known.within
    const path = this.add(unknownSubagent(parent, of))
    this.running.set(`tool:${parent}`, path)
    return path
  }

  /** A change inside a sub-agent also changes its row. */
  private touch(path: RowPath | null, seq: number): void {
    for (let each = path; each !== null; each = each.within) this.own(each).lastSeq = seq
  }

  private list(within: RowPath | null): readonly Row[] {
    if (within === null) return this.rows
    const row = this.at(within)
    return row.kind === 'subagent' ? row.steps : []
  }

  private ownList(within: RowPath | null): Row[] {
    if (within === null) return this.rows
    const row = this.own(within)
    if (row.kind !== 'subagent') throw new Error('only sub-agents have steps')
    if (!this.owned.has(row.steps)) {
      row.steps = [...row.steps]
      this.owned.add(row.steps)
    }
    return row.steps
  }

  private own(path: RowPath): Row {
    const row = this.at(path)
    if (this.owned.has(row)) return row
    const copy = { ...row }
    this.ownList(path.within)[path.index] = copy
    this.owned.add(copy)
    return copy
  }
}

export function isSamePath(left: RowPath | null, right: RowPath | null): boolean {
  if (left === null || right === null) return left === right
  return left.index === right.index && isSamePath(left.within, right.within)
}

/** Common fields of a row that starts with this event. Spread it last: V8 is twenty times slower the other way round. */
export function base(event: LogEvent, key = `seq:${event.seq}`) {
  return {
    key,
    seq: event.seq,
    lastSeq: event.seq,
    at: event.at,
    turn: turnOf(event),
    parent: parentOf(event),
  }
}

function unknownSubagent(toolUseId: string, { seq, at }: { seq: number; at: string }): SubagentRow {
  return {
    kind: 'subagent',
    key: `tool:${toolUseId}`,
    seq,
    lastSeq: seq,
    at,
    turn: null,
    parent: null,
    toolUseId,
    agent: '',
    description: '',
    prompt: '',
    status: 'running',
    background: false,
    result: null,
    rest: null,
    tokens: null,
    costUsd: null,
    durationMs: null,
    steps: [],
  }
}

function isOf<Kind extends Row['kind']>(row: Row, kind: Kind): row is RowOf<Kind> {
  return row.kind === kind
}

function narrowed<Kind extends Row['kind']>(row: Row, kind: Kind): RowOf<Kind> | null {
  return isOf(row, kind) ? row : null
}
