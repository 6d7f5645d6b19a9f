import type { LogEvent } from './event'
import { firstText, number } from './read'
import type { PlanItem, Row, SubagentRow } from './rows'
import { MapChange, VersionedMap } from './versioned-map'

/** Path of a row: at the top level, or within the steps of a sub-agent. Rows never move. */
export interface Place {
  readonly within: Place | null
  readonly index: number
}

/** State that is needed to fold the next event into the rows. Immutable. */
export interface Memory {
  /** By subject: `tool:<id>`, `message:<id>`, `echo:<uuid>`, `preview:<port>`, … */
  readonly places: VersionedMap<Place>
  /** Running rows by key, oldest first. */
  readonly running: ReadonlyMap<string, Place>
  /** Tool calls with a result but no completion yet. Workers without ids may still send one. */
  readonly unconfirmed: readonly Place[]
  /** Messages that no worker has injected yet. */
  readonly undelivered: readonly Place[]
  /** Messages that were injected without a uuid and will be echoed by the agent. */
  readonly awaitingEcho: readonly Place[]
  /** Plans by the sub-agent's `tool_use_id`, or '' for the main agent. */
  readonly plans: ReadonlyMap<string, Plan>
  /** Whether the log is loaded from its first event. */
  readonly fromStart: boolean
}

export interface Plan {
  readonly items: readonly PlannedItem[]
  /** The row that shows its current state. */
  readonly place: Place | null
}

export interface PlannedItem extends PlanItem {
  readonly id: string | null
  /** The call that created it, until it has an id. */
  readonly createdBy: string | null
}

export const emptyMemory: Memory = {
  places: new VersionedMap(),
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
export class Draft {
  readonly rows: Row[]
  readonly places: MapChange<Place>
  readonly running: Map<string, Place>
  readonly plans: Map<string, Plan>
  unconfirmed: readonly Place[]
  undelivered: readonly Place[]
  awaitingEcho: readonly Place[]
  fromStart: boolean
  /** Rows that were merged into the row before them, by key. */
  readonly merged = new Map<string, string>()
  private readonly owned = new Set<object>()

  constructor(rows: readonly Row[], memory: Memory) {
    this.rows = [...rows]
    this.places = memory.places.change()
    this.running = new Map(memory.running)
    this.plans = new Map(memory.plans)
    this.unconfirmed = memory.unconfirmed
    this.undelivered = memory.undelivered
    this.awaitingEcho = memory.awaitingEcho
    this.fromStart = memory.fromStart
  }

  memory(): Memory {
    const { running, unconfirmed, undelivered, awaitingEcho, plans, fromStart } = this
    return { places: this.places.finish(), running, unconfirmed, undelivered, awaitingEcho, plans, fromStart }
  }

  at(place: Place): Row {
    const row = this.list(place.within)[place.index]
    if (row === undefined) throw new Error('places come from add, and rows never move')
    return row
  }

  /** The row at a place, as a mutable copy that this event changes. */
  change(place: Place, event: LogEvent): Row {
    this.touch(place.within, event.seq)
    const row = this.own(place)
    row.lastSeq = event.seq
    return row
  }

  /** Like `change`, or `null` if the row is of another kind. */
  changeIf<Kind extends Row['kind']>(place: Place, kind: Kind, event: LogEvent): RowOf<Kind> | null {
    return isOf(this.at(place), kind) ? narrowed(this.change(place, event), kind) : null
  }

  /** Appends a row to the steps of its sub-agent, or to the top level. */
  add(row: Row): Place {
    const within = this.containerOf(row.parent, row)
    this.touch(within, row.seq)
    const list = this.ownList(within)
    const isNamed = !row.key.startsWith('seq:')
    // Keys must be unique: React would treat two rows with the same key as one.
    if (isNamed && this.places.get(row.key) !== undefined) row.key = `seq:${row.seq}`
    this.owned.add(row)
    list.push(row)
    const place = { within, index: list.length - 1 }
    if (isNamed) this.places.set(row.key, place)
    return place
  }

  /** The previous row, if the given one is the last of its list. */
  before(place: Place): Place | null {
    const isLast = place.index === this.list(place.within).length - 1
    return isLast && place.index > 0 ? { within: place.within, index: place.index - 1 } : null
  }

  /** Removes the last row of a list after it was merged into the one before. */
  merge(last: Place, into: Place): void {
    const dropped = this.ownList(last.within).pop()
    if (dropped === undefined) return
    this.merged.set(dropped.key, this.at(into).key)
    this.places.set(dropped.key, into)
  }

  /** The last row of the given sub-agent, or of the top level. */
  last(parent: string | null, event: LogEvent): Place | null {
    const within = this.containerOf(parent, event)
    const { length } = this.list(within)
    return length === 0 ? null : { within, index: length - 1 }
  }

  remember(places: readonly Place[], place: Place): readonly Place[] {
    return [...places, place].slice(-MAX_REMEMBERED)
  }

  /**
   * The sub-agent row whose steps contain it. A sub-agent whose call is not in the loaded part of the log gets a
   * placeholder row, which later events complete.
   */
  private containerOf(parent: string | null, of: { seq: number; at: string }): Place | null {
    if (parent === null) return null
    const known = this.places.get(`tool:${parent}`)
    if (known !== undefined) return this.at(known).kind === 'subagent' ? known : known.within
    const place = this.add(unknownSubagent(parent, of))
    this.running.set(`tool:${parent}`, place)
    return place
  }

  /** A change inside a sub-agent also changes its row. */
  private touch(place: Place | null, seq: number): void {
    for (let each = place; each !== null; each = each.within) this.own(each).lastSeq = seq
  }

  private list(within: Place | null): readonly Row[] {
    if (within === null) return this.rows
    const row = this.at(within)
    return row.kind === 'subagent' ? row.steps : []
  }

  private ownList(within: Place | null): Row[] {
    if (within === null) return this.rows
    const row = this.own(within)
    if (row.kind !== 'subagent') throw new Error('only sub-agents have steps')
    if (!this.owned.has(row.steps)) {
      row.steps = [...row.steps]
      this.owned.add(row.steps)
    }
    return row.steps
  }

  private own(place: Place): Row {
    const row = this.at(place)
    if (this.owned.has(row)) return row
    const copy = { ...row }
    this.ownList(place.within)[place.index] = copy
    this.owned.add(copy)
    return copy
  }
}

export function isSamePlace(left: Place | null, right: Place | null): boolean {
  if (left === null || right === null) return left === right
  return left.index === right.index && isSamePlace(left.within, right.within)
}

/** Common fields of a row that starts with this event. Spread it last: V8 is twenty times slower the other way round. */
export function base(event: LogEvent, key = `seq:${event.seq}`) {
  return {
    key,
    seq: event.seq,
    lastSeq: event.seq,
    at: event.at,
    turn: number(event.data, 'turn'),
    parent: firstText(event.data, 'parent_tool_use_id'),
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
