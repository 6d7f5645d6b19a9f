import type { LogEvent } from '../timeline/event'
import type { JsonObject } from './contract'

/** What an agent is writing at this moment. */
export interface Writing {
  readonly text: string
  readonly thinking: boolean
}

interface Block {
  message: string
  block: number
  thinking: boolean
  text: string
  /** How many characters of it were written, as the worker counts them: Unicode's, not JavaScript's. */
  length: number
}

/** Messages whose blocks are remembered as finished. Their late pieces come within seconds, if at all. */
const MAX_FINISHED = 200

/**
 * Text while it is written, put together from `agent.partial`. Pieces may come twice, late or not at all; the finished
 * text is an event of the log, and what is here of it goes when that comes.
 */
export class Partials {
  #blocks: Block[] = []
  /** By message: how many of its blocks are in the log. Each block is one event, in order. */
  readonly #finished = new Map<string, number>()

  /** A piece. Returns whether what is shown has changed. */
  hear(data: JsonObject): boolean {
    const { message_id: message, block, kind, offset, text } = data
    if (typeof message !== 'string' || typeof block !== 'number') return false
    if (typeof offset !== 'number' || typeof text !== 'string' || text === '') return false
    if (block < (this.#finished.get(message) ?? 0)) return false
    const piece = Array.from(text)
    const written = offset + piece.length
    const known = this.#blocks.find((each) => each.message === message && each.block === block)
    if (known !== undefined && written <= known.length) return false
    const thinking = kind === 'thinking'
    const gap = offset > (known?.length ?? 0)
    const before = gap ? '…' : (known?.text ?? '')
    const repeated = gap ? 0 : (known?.length ?? 0) - offset
    const next = { message, block, thinking, text: before + piece.slice(repeated).join(''), length: written }
    // What was written last is what is shown.
    this.#blocks = [...this.#blocks.filter((each) => each !== known), next]
    return true
  }

  /** An event of the log: what it finishes is not shown as unfinished any more. */
  settle(event: LogEvent): boolean {
    if (ENDS.has(event.type)) return this.#keep(() => false)
    const message = event.data['message_id']
    if (!event.type.startsWith('agent.') || typeof message !== 'string') return false
    const block = event.data['block']
    const finished =
      event.type === 'agent.assistant_message'
        ? Number.POSITIVE_INFINITY
        : typeof block === 'number'
          ? block + 1
          : (this.#finished.get(message) ?? 0) + 1
    this.#finished.set(message, finished)
    const oldest = this.#finished.keys().next()
    if (this.#finished.size > MAX_FINISHED && oldest.done !== true) this.#finished.delete(oldest.value)
    return this.#keep((each) => each.message !== message || each.block >= finished)
  }

  /** Pieces may have been missed: half a sentence is worse than none. */
  clear(): boolean {
    return this.#keep(() => false)
  }

  get shown(): Writing | null {
    const last = this.#blocks.at(-1)
    return last === undefined ? null : { text: last.text, thinking: last.thinking }
  }

  #keep(which: (block: Block) => boolean): boolean {
    const before = this.#blocks.length
    this.#blocks = this.#blocks.filter(which)
    return this.#blocks.length !== before
  }
}

/** After these nobody writes on. */
const ENDS = new Set([
  'agent.turn_completed',
  'agent.interrupted',
  'agent.completed',
  'agent.failed',
  'agent.stream_error',
  'agent.shutdown',
  'agent.waiting',
  'sandbox.completed',
  'sandbox.failed',
  'sandbox.terminated',
  'sandbox.terminated_idle',
  'sandbox.released',
])
