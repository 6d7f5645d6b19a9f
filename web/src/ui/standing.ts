import type { SandboxOut, SandboxStatus, TaskOut, TaskStatus, TicketOut } from '../api/contract'

/**
 * Where something stands, in the few words that a reader sorts by, and the one word that is true of it just now.
 *
 * The plane has more states than a reader cares for. They are told apart by who has to do something next:
 * - `running`: something is being done for it. A task that is claimed or assigned takes a slot as one that runs does,
 *   so this is the number to compare with the limit of tasks at work.
 * - `awaiting`: a person has to decide. In this plane that is what a task's own `validating` means (its agent is done,
 *   and nobody but a person may judge), and a ticket that nobody has approved yet.
 * - `validating`: a person has judged, and the work goes back: `needs_revision`, and until its next try begins.
 * - `failed`: it ended without what was wanted. What somebody called off is here too, under its own word.
 */
export type Standing = 'running' | 'validating' | 'awaiting' | 'pending' | 'completed' | 'failed' | 'cancelled'

export interface Status {
  readonly standing: Standing
  readonly word: string
}

const tasks: Record<TaskStatus, Status> = {
  pending: { standing: 'pending', word: 'Pending' },
  claiming: { standing: 'running', word: 'Starting' },
  assigned: { standing: 'running', word: 'Starting' },
  running: { standing: 'running', word: 'Running' },
  validating: { standing: 'awaiting', word: 'Awaiting review' },
  needs_revision: { standing: 'validating', word: 'Needs revision' },
  completed: { standing: 'completed', word: 'Completed' },
  failed: { standing: 'failed', word: 'Failed' },
  cancelled: { standing: 'cancelled', word: 'Cancelled' },
}

const sandboxes: Record<SandboxStatus, Status> = {
  registered: { standing: 'pending', word: 'Registered' },
  pending: { standing: 'running', word: 'Starting' },
  creating: { standing: 'running', word: 'Starting' },
  running: { standing: 'running', word: 'Running' },
  completing: { standing: 'running', word: 'Finishing' },
  completed: { standing: 'completed', word: 'Completed' },
  failed: { standing: 'failed', word: 'Failed' },
  terminated: { standing: 'cancelled', word: 'Stopped' },
  unknown: { standing: 'pending', word: 'Unknown' },
}

const stranger: Status = { standing: 'pending', word: 'Unknown' }

export function ofTask(task: Pick<TaskOut, 'status'> & Partial<Pick<TaskOut, 'feedback'>>): Status {
  // It was judged and sent back, and waits for its next try.
  if (task.status === 'pending' && typeof task.feedback === 'string') return tasks.needs_revision
  return known(tasks, task.status)
}

export function ofSandbox(sandbox: Pick<SandboxOut, 'status'>): Status {
  return known(sandboxes, sandbox.status)
}

export function ofTicket(ticket: Pick<TicketOut, 'status' | 'approval_status' | 'is_blocked' | 'blocked_reason'>): Status {
  switch (ticket.approval_status) {
    case 'pending_review':
      return { standing: 'awaiting', word: 'Awaiting approval' }
    case 'rejected':
      return { standing: 'cancelled', word: 'Rejected' }
    case 'timed_out':
      return { standing: 'failed', word: 'Not approved in time' }
    case 'approved':
      break
  }
  if (ticket.is_blocked) {
    return ticket.blocked_reason === 'task_cancelled' ? tasks.cancelled : { standing: 'failed', word: 'Blocked' }
  }
  if (ticket.status === 'done') return tasks.completed
  if (ticket.status === 'backlog') return tasks.pending
  return tasks.running
}

/** A newer plane may say what this console does not know. */
function known<Name extends string>(statuses: Record<Name, Status>, name: Name): Status {
  return Object.hasOwn(statuses, name) ? statuses[name] : stranger
}
