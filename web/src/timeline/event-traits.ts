import { EVENT_TYPES, type KnownEventType } from '../api/contract'
import type { EventType } from './event'

/** What an event means beyond the row that `fold.ts` makes of it. */
export type EventTrait =
  /** The sandbox has ended: its log grows no more, its servers are stopped, nothing of the agent runs. */
  | 'ends_sandbox'
  /** Calls that the agent had begun do not run any more. A start counts: a killed worker could not report the end. */
  | 'ends_calls'
  /** No partial text is pending. */
  | 'ends_text'
  /** A call of a tool, sub-agent or skill begins. */
  | 'begins_call'
  /** A call has completed; its data say whether it failed. */
  | 'completes_call'
  /** Something failed; its data say why. */
  | 'reports_failure'
  /** Queries about the sandbox, its task or its messages return something else. */
  | 'changes_sandbox'
  /** A card in the list of sandboxes shows something else. */
  | 'changes_card'
  /** The progress of a ticket shows something else. */
  | 'changes_progress'

/** Every event type with its traits. A new type does not compile until it has a row here; most traits are rare. */
const TRAITS = {
  'sandbox.pending': ['changes_sandbox'],
  'sandbox.preparing': ['changes_sandbox', 'changes_progress'],
  'sandbox.creating': ['changes_sandbox', 'changes_progress'],
  'sandbox.uploading': ['changes_sandbox', 'changes_progress'],
  'sandbox.starting': ['changes_sandbox', 'changes_progress'],
  'sandbox.spawned': ['changes_sandbox', 'changes_progress'],
  'sandbox.running': ['changes_sandbox', 'changes_card', 'changes_progress'],
  'sandbox.retrying': ['changes_sandbox', 'changes_progress'],
  'sandbox.token_rotated': ['changes_sandbox'],
  'sandbox.completing': ['changes_sandbox', 'changes_card'],
  'sandbox.completed': ['ends_sandbox', 'changes_sandbox', 'changes_card'],
  'sandbox.failed': ['ends_sandbox', 'reports_failure', 'changes_sandbox', 'changes_card', 'changes_progress'],
  'sandbox.terminated': ['ends_sandbox', 'changes_sandbox', 'changes_card'],
  'sandbox.terminated_idle': ['ends_sandbox', 'changes_sandbox', 'changes_card'],
  'sandbox.released': ['ends_sandbox', 'changes_sandbox'],
  'task.created': ['changes_card', 'changes_progress'],
  'task.ready': ['changes_card', 'changes_progress'],
  'task.claimed': ['changes_card', 'changes_progress'],
  'task.assigned': ['changes_card', 'changes_progress'],
  'task.started': ['changes_card', 'changes_progress'],
  'task.branch_created': ['changes_card', 'changes_progress'],
  'task.completing': ['changes_card', 'changes_progress'],
  'task.pull_request_opened': ['changes_card'],
  'task.merged': ['changes_card'],
  'task.pull_request_closed': ['changes_card'],
  'task.feedback_received': ['changes_card', 'changes_progress'],
  'task.feedback_answered': ['changes_card'],
  'task.feedback_left': ['changes_card'],
  'task.feedback_requested': [],
  'task.merge_conflict': [],
  'task.completed': ['changes_card', 'changes_progress'],
  'task.failed': ['reports_failure', 'changes_card', 'changes_progress'],
  'task.retrying': ['changes_card', 'changes_progress'],
  'task.cancelled': ['changes_card', 'changes_progress'],
  'task.validating': ['changes_card', 'changes_progress'],
  'task.needs_revision': ['changes_card', 'changes_progress'],
  'task.updated': ['changes_card', 'changes_progress'],
  'task.dependencies_changed': ['changes_card', 'changes_progress'],
  'ticket.created': ['changes_card', 'changes_progress'],
  'ticket.transitioned': ['changes_card', 'changes_progress'],
  'ticket.approved': ['changes_card', 'changes_progress'],
  'ticket.rejected': ['changes_card', 'changes_progress'],
  'ticket.timed_out': ['changes_card', 'changes_progress'],
  'ticket.blocked': ['changes_card', 'changes_progress'],
  'ticket.unblocked': ['changes_card', 'changes_progress'],
  'ticket.merge_started': ['changes_card'],
  'ticket.merge_ordered': [],
  'ticket.merge_progress': [],
  'ticket.merge_conflict': ['changes_card'],
  'ticket.merge_ended': ['changes_card'],
  'message.queued': ['changes_sandbox'],
  'message.fetched': ['changes_sandbox'],
  'message.undeliverable': ['changes_sandbox'],
  'message.delivered': ['changes_sandbox'],
  'message.started': ['changes_sandbox'],
  'message.completed': ['changes_sandbox'],
  'message.cancelled': ['changes_sandbox'],
  'workspace.cloning': [],
  'workspace.ready': [],
  'workspace.failed': ['ends_calls', 'reports_failure'],
  'workspace.pushed': [],
  'workspace.push_rejected': [],
  'workspace.push_failed': ['reports_failure'],
  'workspace.kept': ['changes_sandbox'],
  'workspace.keep_failed': ['reports_failure'],
  'workspace.changes_left_out': [],
  'workspace.snapshots_off': [],
  'network.denied': [],
  'agent.started': ['ends_calls', 'changes_sandbox', 'changes_card'],
  'agent.system_message': [],
  'agent.user_message': [],
  'agent.message': [],
  'agent.thinking': [],
  'agent.assistant_message': [],
  'agent.tool_use': ['begins_call'],
  'agent.tool_completed': ['completes_call'],
  'agent.tool_result': [],
  'agent.user_tool_result': [],
  'agent.subagent_invoked': ['begins_call'],
  'agent.subagent_completed': ['completes_call'],
  'agent.skill_invoked': ['begins_call'],
  'agent.skill_completed': ['completes_call'],
  'agent.file_edited': [],
  'agent.permission_decided': [],
  'agent.plan': [],
  'agent.turn_completed': ['ends_text'],
  'agent.message_injected': [],
  'agent.interrupted': ['ends_text'],
  'agent.completed': ['ends_calls', 'ends_text', 'changes_sandbox', 'changes_card'],
  'agent.failed': ['ends_calls', 'ends_text', 'reports_failure', 'changes_sandbox', 'changes_card'],
  'agent.waiting': ['ends_text', 'changes_sandbox'],
  'agent.stream_error': ['ends_calls', 'ends_text', 'reports_failure'],
  'agent.error': ['reports_failure'],
  'agent.unparsed': [],
  'agent.shutdown': ['ends_calls', 'ends_text'],
  'agent.heartbeat': [],
  'agent.partial': [],
  'continuous.started': [],
  'continuous.completed': ['changes_sandbox'],
  'iteration.started': [],
  'iteration.completed': [],
  'iteration.failed': ['reports_failure'],
  'iteration.completion_signal': [],
  'iteration.validation': [],
  'preview.starting': [],
  'preview.ready': [],
  'preview.failed': ['reports_failure'],
  'preview.stopped': [],
  'worker.isolation': [],
  'worker.outbox_full': [],
  'worker.event_refused': [],
  'worker.receipt_refused': [],
  'worker.transcript_refused': [],
  'worker.transcript_behind': [],
  'worker.spool_damaged': [],
  'worker.transcript_lost': [],
} as const satisfies Readonly<Record<KnownEventType, readonly EventTrait[]>>

/** The event types with a trait, for reading the fields that all of them have. */
export type EventTypeWith<Trait extends EventTrait> = {
  [T in KnownEventType]: Trait extends (typeof TRAITS)[T][number] ? T : never
}[KnownEventType]

export function hasTrait(type: EventType, trait: EventTrait): boolean {
  const traits: readonly EventTrait[] = isKnown(type) ? TRAITS[type] : []
  return traits.includes(trait)
}

/** All event types with a trait. */
export function eventTypesWith(trait: EventTrait): KnownEventType[] {
  return EVENT_TYPES.filter((type) => hasTrait(type, trait))
}

export function isKnown(type: EventType): type is KnownEventType {
  return Object.hasOwn(TRAITS, type)
}
