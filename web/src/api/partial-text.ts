import { dataOf, type LogEvent } from '../timeline/event'
import { hasTrait } from '../timeline/event-traits'
import { number, someNumber, someText, text as textOf } from '../timeline/read'
import type { JsonObject } from './contract'

/** Text that the agent is still generating. */
export interface PartialText {
  readonly text: string
  readonly thinking: boolean
}

interface Block {
  message: string
  block: number
  thinking: boolean
  text: string
  /** Length in Unicode code points, as the worker counts them, not in UTF-16 code units. */
  length: number
}

/** Event types with the id of the model's response: its blocks, and its end. */
type ResponseEventType =
  | 'agent.message'
  | 'agent.thinking'
  | 'agent.tool_use'
  | 'agent.tool_result'
  | 'agent.subagent_invoked'
  | 'agent.skill_invoked'
  | 'agent.unparsed'
  | 'agent.assistant_message'

/** Number of messages whose finished blocks are remembered. Late pieces arrive within seconds, if at all. */
const MAX_FINISHED = 200

/**
 * Assembles text from `agent.partial` frames while it is generated. Pieces may be duplicated, late or lost. The finished
 * text is an event of the log; when it arrives, the partial text is discarded.
 */
export class PartialTexts {
  #blocks: Block[] = []
  /** By message: number of its blocks that are in the log. Each block is one event, in order. */
  readonly #finished = new Map<string, number>()

  /** Adds a piece. Returns whether the shown text has changed. */
  add(payload: JsonObject): boolean {
    const data = dataOf('agent.partial', payload)
    const [message, block, kind] = [textOf(data, 'message_id'), number(data, 'block'), textOf(data, 'kind')]
    const [offset, text] = [number(data, 'offset'), textOf(data, 'text')]
    if (message === null || block === null) return false
    if (offset === null || text === null || text === '') return false
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
    // The block that was written to last is shown.
    this.#blocks = [...this.#blocks.filter((each) => each !== known), next]
    return true
  }

  /** Discards the blocks that an event of the log completes. Returns whether the shown text has changed. */
  complete(event: LogEvent): boolean {
    if (hasTrait(event.type, 'ends_text') || hasTrait(event.type, 'ends_sandbox')) return this.#keep(() => false)
    const message = someText<ResponseEventType>(event.data, 'message_id')
    if (!event.type.startsWith('agent.') || message === null) return false
    const block = someNumber<'agent.message' | 'agent.thinking'>(event.data, 'block')
    const finished =
      event.type === 'agent.assistant_message'
        ? Number.POSITIVE_INFINITY
        : block !== null
          ? block + 1
          : (this.#finished.get(message) ?? 0) + 1
    this.#finished.set(message, finished)
    const oldest = this.#finished.keys().next()
    if (this.#finished.size > MAX_FINISHED && oldest.done !== true) this.#finished.delete(oldest.value)
    return this.#keep((each) => each.message !== message || each.block >= finished)
  }

  /** Discards everything, for when pieces may have been missed: half a sentence is worse than none. */
  clear(): boolean {
    return this.#keep(() => false)
  }

  get shown(): PartialText | null {
    const last = this.#blocks.at(-1)
    return last === undefined ? null : { text: last.text, thinking: last.thinking }
  }

  #keep(which: (block: Block) => boolean): boolean {
    const before = this.#blocks.length
    this.#blocks = this.#blocks.filter(which)
    return this.#blocks.length !== before
  }
}
