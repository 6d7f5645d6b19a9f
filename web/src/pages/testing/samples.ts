import type { JsonObject, SandboxOut, TaskOut, TicketOut, TicketDetails } from '../../api/contract'
import { logEvent, type LogEvent } from '../../timeline/event'

// Sample API responses for tests: defaults plus the fields a test sets.

const AT = '2026-11-17T10:00:00.000000Z'

export function taskWith(changes: Partial<TaskOut>): TaskOut {
  return {
    id: 'task-1',
    ticket_id: 'ticket-1',
    project_id: null,
    phase_id: 'PHASE_IMPLEMENTATION',
    task_type: 'implement_feature',
    title: 'Count words',
    description: 'Count the words of a text',
    priority: 'MEDIUM',
    status: 'pending',
    sandbox_id: null,
    assigned_agent_id: null,
    created_at: AT,
    updated_at: AT,
    started_at: null,
    completed_at: null,
    score: 0.3,
    attempt: 0,
    retry_count: 0,
    max_retries: 3,
    error_message: null,
    result: null,
    branch: null,
    dependencies: { depends_on: [] },
    blocked: false,
    not_before: null,
    timeout_seconds: null,
    times_out_at: null,
    deadline_at: null,
    validation: false,
    feedback: null,
    ...changes,
  }
}

export function sandboxWith(changes: Partial<SandboxOut>): SandboxOut {
  return {
    sandbox_id: 'box-1',
    org: 'default',
    name: null,
    status: 'running',
    created_at: AT,
    last_event_at: null,
    last_work_at: null,
    last_seq: 1,
    epoch: 0,
    batch: 0,
    heartbeats: { count: 0, first_heartbeat: null, last_heartbeat: null },
    heartbeat_status: null,
    event_counts: {},
    queue_size: 0,
    ...changes,
  }
}

export function ticketWith(changes: Partial<TicketOut>): TicketOut {
  return {
    id: 'ticket-1',
    org: 'default',
    title: 'Count words',
    description: 'Count the words of a text',
    phase_id: 'PHASE_BACKLOG',
    previous_phase_id: null,
    status: 'backlog',
    priority: 'MEDIUM',
    is_blocked: false,
    blocked_reason: null,
    blocked_at: null,
    approval_status: 'approved',
    approval_deadline_at: null,
    rejection_reason: null,
    reviewed_by: null,
    project_id: null,
    repository: null,
    workflow_mode: 'quick',
    merge: null,
    task_id: 'task-1',
    created_by: 'operator',
    created_at: AT,
    updated_at: AT,
    last_seq: 1,
    ...changes,
  }
}

export function shownWith(changes: Partial<TicketDetails>): TicketDetails {
  return { ...ticketWith({}), tasks: [], has_more_tasks: false, ...changes }
}

export function eventWith(type: string, raw: JsonObject = {}, seq = 1): LogEvent {
  return logEvent({ seq, id: `event-${seq}`, type, raw, source: 'system', at: AT, body: null })
}
