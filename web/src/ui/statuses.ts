import type { SandboxOut, SandboxStatus, TaskOut, TaskStatus, TicketOut } from '../api/contract'

/**
 * Groups the detailed statuses of tasks, sandboxes and tickets for filters and colours. Each status keeps its own label.
 *
 * The groups differ in what has to happen next:
 * - `running`: work is in progress. A claimed or assigned task takes a slot as a running one does, so this is the number
 *   to compare with the concurrency limit.
 * - `awaiting`: a person has to decide. This includes a task that is `validating` (its agent is done and the result has
 *   to be reviewed) and a ticket that is not approved yet.
 * - `validating`: a reviewer sent the work back: `needs_revision`, until its next attempt starts.
 * - `failed`: it ended without the wanted result. `cancelled` is shown with it, under its own label.
 */
export type StatusGroup = 'running' | 'validating' | 'awaiting' | 'pending' | 'completed' | 'failed' | 'cancelled'

export interface Status {
  readonly group: StatusGroup
  readonly label: string
}

const tasks: Record<TaskStatus, Status> = {
  pending: { group: 'pending', label: 'Pending' },
  claiming: { group: 'running', label: 'Starting' },
  assigned: { group: 'running', label: 'Starting' },
  running: { group: 'running', label: 'Running' },
  completing: { group: 'running', label: 'Finishing' },
  validating: { group: 'awaiting', label: 'Awaiting review' },
  needs_revision: { group: 'validating', label: 'Needs revision' },
  completed: { group: 'completed', label: 'Completed' },
  failed: { group: 'failed', label: 'Failed' },
  cancelled: { group: 'cancelled', label: 'Cancelled' },
}

const sandboxes: Record<SandboxStatus, Status> = {
  registered: { group: 'pending', label: 'Registered' },
  pending: { group: 'running', label: 'Starting' },
  creating: { group: 'running', label: 'Starting' },
  running: { group: 'running', label: 'Running' },
  completing: { group: 'running', label: 'Finishing' },
  completed: { group: 'completed', label: 'Completed' },
  failed: { group: 'failed', label: 'Failed' },
  terminated: { group: 'cancelled', label: 'Stopped' },
  unknown: { group: 'pending', label: 'Unknown' },
}

const unknownStatus: Status = { group: 'pending', label: 'Unknown' }

export function ofTask(task: Pick<TaskOut, 'status'> & Partial<Pick<TaskOut, 'feedback'>>): Status {
  // A reviewer sent it back, and it waits for its next attempt.
  if (task.status === 'pending' && typeof task.feedback === 'string') return tasks.needs_revision
  return known(tasks, task.status)
}

export function ofSandbox(sandbox: Pick<SandboxOut, 'status'>): Status {
  return known(sandboxes, sandbox.status)
}

export function ofTicket(
  ticket: Pick<TicketOut, 'status' | 'approval_status' | 'is_blocked' | 'blocked_reason'>,
): Status {
  switch (ticket.approval_status) {
    case 'pending_review':
      return { group: 'awaiting', label: 'Awaiting approval' }
    case 'rejected':
      return { group: 'cancelled', label: 'Rejected' }
    case 'timed_out':
      return { group: 'failed', label: 'Not approved in time' }
    case 'approved':
      break
  }
  if (ticket.is_blocked) {
    return ticket.blocked_reason === 'task_cancelled' ? tasks.cancelled : { group: 'failed', label: 'Blocked' }
  }
  if (ticket.status === 'done') return tasks.completed
  if (ticket.status === 'backlog') return tasks.pending
  return tasks.running
}

/** A newer control plane may send a status that this console does not know. */
function known<Name extends string>(statuses: Record<Name, Status>, name: Name): Status {
  return Object.hasOwn(statuses, name) ? statuses[name] : unknownStatus
}
