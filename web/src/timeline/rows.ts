import type { JsonObject, JsonValue, MessageState, MessageType } from '../api/contract'

/**
 * What a reader sees: the log, folded. One row for a tool from its call to its end, one for a message with all its
 * receipts, none for signs of life. `fold.ts` makes them; components render them and hold no rules.
 */
export type Row =
  | TextRow
  | ThinkingRow
  | SaidRow
  | ToolRow
  | FileRow
  | SubagentRow
  | SkillRow
  | PlanRow
  | LineRow
  | ErrorRow
  | IterationRow
  | TurnRow
  | PreviewRow
  | OtherRow

/**
 * How far something that runs has come. `interrupted` is what was running when its agent ended: nobody knows what came
 * of it, so it is neither done nor failed.
 */
export type Progress = 'running' | 'done' | 'failed' | 'interrupted'

export type Tone = 'quiet' | 'good' | 'bad' | 'warn' | 'info'

interface Base {
  /** Stable, however much of the log is loaded: of what the row is about. */
  key: string
  /** Of the event that put it there. */
  seq: number
  /** Of the last event that changed it. */
  lastSeq: number
  at: string
  turn: number | null
  /** The sub-agent that did it: its `tool_use_id`. */
  parent: string | null
}

/** The agent writes. */
export interface TextRow extends Base {
  kind: 'text'
  text: string
  /** Where the rest of a long text is: the event's number. */
  rest: number | null
}

export interface ThinkingRow extends Base {
  kind: 'thinking'
  text: string
  rest: number | null
}

/** Somebody says something to the agent: a person, the guardian, the plane, or the task itself. */
export interface SaidRow extends Base {
  kind: 'said'
  text: string
  messageId: string | null
  messageType: MessageType | 'task'
  /** "You" is decided by the page. `null` for what nobody sent, such as the task that the agent begins with. */
  sender: { kind: string; id: string | null } | null
  /** Nobody typed it: the worker or the agent's own machinery did. */
  synthetic: boolean
  /** Where the rest of a long text is. */
  rest: number | null
  /** How far it has come, with the time of each step; empty where nobody counts. */
  receipts: Receipt[]
}

export interface Receipt {
  state: MessageState
  at: string
  detail: string | null
}

/** A tool, from its call to its end. */
export interface ToolRow extends Base {
  kind: 'tool'
  tool: string
  /** What an agent itself calls this use of it, where it does. */
  title: string | null
  toolUseId: string | null
  status: Progress | 'refused'
  input: JsonObject
  /** As the worker told it; `null` while it runs. */
  output: JsonValue
  durationMs: number | null
  /** Files that changed by it. */
  files: FileChange[]
  /** Why it was allowed or refused, where somebody decided. */
  permission: { allowed: boolean; reason: string | null } | null
  /** How many equal calls in a row this row stands for. */
  repeats: number
  rest: number | null
}

/** A file that changed without a tool that this log knows. */
export interface FileRow extends Base {
  kind: 'file'
  change: FileChange
}

export interface FileChange {
  seq: number
  at: string
  path: string
  previousPath: string | null
  change: 'created' | 'modified' | 'deleted' | 'renamed'
  added: number
  removed: number
  /** A unified diff: all of it if `whole`, else its beginning. */
  diff: string
  whole: boolean
  /** `GET events/{seq}/body` has `full_diff`. */
  fullAvailable: boolean
  binary: boolean
  toolUseId: string | null
}

export interface SubagentRow extends Base {
  kind: 'subagent'
  toolUseId: string | null
  agent: string
  description: string
  prompt: string
  status: Progress
  /** It works on while whoever called it goes on. */
  background: boolean
  result: string | null
  /** Where the rest of a long result is. */
  rest: number | null
  tokens: number | null
  costUsd: number | null
  durationMs: number | null
  /** What it did, in order. */
  steps: Row[]
}

export interface SkillRow extends Base {
  kind: 'skill'
  toolUseId: string | null
  skill: string
  status: Progress
  input: JsonObject
  output: JsonValue
  rest: number | null
}

/** An agent's plan or list of things to do, as it stood. */
export interface PlanRow extends Base {
  kind: 'plan'
  items: PlanItem[]
}

export interface PlanItem {
  text: string
  status: 'pending' | 'in_progress' | 'completed'
}

/** One quiet line: it started, it waits, its sandbox is being made. */
export interface LineRow extends Base {
  kind: 'line'
  tone: Tone
  text: string
  detail: string | null
  eventType: string
}

export interface ErrorRow extends Base {
  kind: 'error'
  title: string
  text: string
  /** It goes on all the same. */
  recovers: boolean
  eventType: string
}

/** Continuous mode. */
export interface IterationRow extends Base {
  kind: 'iteration'
  tone: Tone
  text: string
  detail: string | null
}

/** A turn is over: what it cost. */
export interface TurnRow extends Base {
  kind: 'turn'
  success: boolean
  interrupted: boolean
  costUsd: number | null
  inputTokens: number | null
  outputTokens: number | null
  durationMs: number | null
  detail: string | null
}

export interface PreviewRow extends Base {
  kind: 'preview'
  status: 'starting' | 'ready' | 'failed' | 'stopped'
  port: number | null
  url: string | null
  framework: string | null
  detail: string | null
}

/** What nobody has a card for, and what the worker could not read: shown as it is. */
export interface OtherRow extends Base {
  kind: 'other'
  eventType: string
  data: JsonObject
  unparsed: boolean
  rest: number | null
}
