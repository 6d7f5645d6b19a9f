import type { LogEvent } from './event'
import { firstText, number } from './read'
import type { PlanItem, Row, SubagentRow } from './rows'
import { MapChange, VersionedMap } from './versions'

/** Where a row is: in a sub-agent's steps, or among the rows themselves. Rows never move. */
export interface Place {
  readonly within: Place | null
  readonly index: number
}

/** What must be known of the rows so far to fold the next event into them. Never changed, only replaced. */
export interface Memory {
  /** By what a row is about: `tool:<id>`, `message:<id>`, `heard:<uuid>`, `preview:<port>`, … */
  readonly places: VersionedMap<Place>
  /** What runs, by the row's key, the oldest first. */
  readonly running: ReadonlyMap<string, Place>
  /** Uses with a result, and without a completion that a worker which names no ids may still tell. */
  readonly unconfirmed: readonly Place[]
  /** Messages that no worker has said to have taken. */
  readonly unclaimed: readonly Place[]
  /** Messages that were taken, and will be echoed without a name. */
  readonly unheard: readonly Place[]
  /** What each agent plans, by the sub-agent's `tool_use_id`, or '' for the agent itself. */
  readonly plans: ReadonlyMap<string, Plan>
  /** Whether the log is known from its very first event. */
  readonly fromStart: boolean
}

export interface Plan {
  readonly items: readonly PlannedItem[]
  /** The row that shows it as it stands. */
  readonly place: Place | null
}

export interface PlannedItem extends PlanItem {
  readonly id: string | null
  /** The call that made it, until it has an id. */
  readonly madeBy: string | null
}

export const blank: Memory = {
  places: new VersionedMap(),
  running: new Map(),
  unconfirmed: [],
  unclaimed: [],
  unheard: [],
  plans: new Map(),
  fromStart: false,
}

/** At most so many are remembered where nobody says when they are over. */
const REMEMBERED = 64

type RowOf<Kind extends Row['kind']> = Extract<Row, { kind: Kind }>

/** Rows that are being extended. What is not its own it copies before it changes it, once. */
export class Draft {
  readonly rows: Row[]
  readonly places: MapChange<Place>
  readonly running: Map<string, Place>
  readonly plans: Map<string, Plan>
  unconfirmed: readonly Place[]
  unclaimed: readonly Place[]
  unheard: readonly Place[]
  fromStart: boolean
  /** Rows that became part of the row before them, by key. */
  readonly merged = new Map<string, string>()
  private readonly owned = new Set<object>()

  constructor(rows: readonly Row[], memory: Memory) {
    this.rows = [...rows]
    this.places = memory.places.change()
    this.running = new Map(memory.running)
    this.plans = new Map(memory.plans)
    this.unconfirmed = memory.unconfirmed
    this.unclaimed = memory.unclaimed
    this.unheard = memory.unheard
    this.fromStart = memory.fromStart
  }

  memory(): Memory {
    const { running, unconfirmed, unclaimed, unheard, plans, fromStart } = this
    return { places: this.places.finish(), running, unconfirmed, unclaimed, unheard, plans, fromStart }
  }

  at(place: Place): Row {
    const row = this.list(place.within)[place.index]
    if (row === undefined) throw new Error('a place is made by add, and rows stay where they are')
    return row
  }

  /** The row there, to be changed by this event. */
  change(place: Place, event: LogEvent): Row {
    this.touch(place.within, event.seq)
    const row = this.own(place)
    row.lastSeq = event.seq
    return row
  }

  /** The same, if it is of this kind. */
  changeIf<Kind extends Row['kind']>(place: Place, kind: Kind, event: LogEvent): RowOf<Kind> | null {
    return isOf(this.at(place), kind) ? narrowed(this.change(place, event), kind) : null
  }

  /** Adds a row at the end, among the steps of the sub-agent that did it. */
  add(row: Row): Place {
    const within = this.home(row.parent, row)
    this.touch(within, row.seq)
    const list = this.ownList(within)
    const isNamed = !row.key.startsWith('seq:')
    // Two rows with one name would be one to whoever draws them.
    if (isNamed && this.places.get(row.key) !== undefined) row.key = `seq:${row.seq}`
    this.owned.add(row)
    list.push(row)
    const place = { within, index: list.length - 1 }
    if (isNamed) this.places.set(row.key, place)
    return place
  }

  /** The row before this one, if this one is the last of its list. */
  before(place: Place): Place | null {
    const isLast = place.index === this.list(place.within).length - 1
    return isLast && place.index > 0 ? { within: place.within, index: place.index - 1 } : null
  }

  /** Drops the last row of a list in favour of the one before. */
  merge(last: Place, into: Place): void {
    const dropped = this.ownList(last.within).pop()
    if (dropped === undefined) return
    this.merged.set(dropped.key, this.at(into).key)
    this.places.set(dropped.key, into)
  }

  /** The last row of whoever did this. */
  last(parent: string | null, event: LogEvent): Place | null {
    const within = this.home(parent, event)
    const { length } = this.list(within)
    return length === 0 ? null : { within, index: length - 1 }
  }

  remember(places: readonly Place[], place: Place): readonly Place[] {
    return [...places, place].slice(-REMEMBERED)
  }

  /**
   * In whose steps it belongs. A sub-agent whose call is not in the loaded part of the log gets a row all the same: it
   * is filled when more is known of it.
   */
  private home(parent: string | null, of: { seq: number; at: string }): Place | null {
    if (parent === null) return null
    const known = this.places.get(`tool:${parent}`)
    if (known !== undefined) return this.at(known).kind === 'subagent' ? known : known.within
    const place = this.add(unknownSubagent(parent, of))
    this.running.set(`tool:${parent}`, place)
    return place
  }

  /** What happens in a sub-agent happens to its row, too. */
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

export function isSamePlace(one: Place | null, other: Place | null): boolean {
  if (one === null || other === null) return one === other
  return one.index === other.index && isSamePlace(one.within, other.within)
}

/** What every row has that begins with this event. Spread it last: V8 takes twenty times as long the other way round. */
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
