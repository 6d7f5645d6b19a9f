import type { KnownEventType } from '../api/contract'
import type { LogEvent } from './event'
import { someNumber, someText } from './read'

// Where an event belongs in the agent's conversation. The fields are read from events of any type, because other
// workers and newer ones may send them with more types. The types below are those whose payload has the field: renaming
// it in one of them breaks the build.

type AgentEventType = Extract<KnownEventType, `agent.${string}`>

/** Event types with the number of a turn: those of the agent, except for its start, its end and what is ephemeral. */
export type TurnEventType =
  | Exclude<
      AgentEventType,
      'agent.started' | 'agent.completed' | 'agent.failed' | 'agent.shutdown' | 'agent.heartbeat' | 'agent.partial'
    >
  | 'workspace.changes_left_out'

/** Event types that may belong to a sub-agent. */
export type ConversationEventType =
  | 'agent.user_message'
  | 'agent.message'
  | 'agent.thinking'
  | 'agent.assistant_message'
  | 'agent.tool_use'
  | 'agent.tool_completed'
  | 'agent.tool_result'
  | 'agent.user_tool_result'
  | 'agent.subagent_invoked'
  | 'agent.subagent_completed'
  | 'agent.skill_invoked'
  | 'agent.skill_completed'
  | 'agent.unparsed'

/** The number of the turn. */
export function turnOf({ data }: LogEvent): number | null {
  return someNumber<TurnEventType>(data, 'turn')
}

/** The call of the sub-agent that it belongs to; `null` for the main agent. */
export function parentOf({ data }: LogEvent): string | null {
  return someText<ConversationEventType>(data, 'parent_tool_use_id')
}
