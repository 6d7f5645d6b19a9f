import { PRIORITIES, type NewTicket, type Priority } from '../../api/contract'
import { uniqueId } from '../../util/ids'

/** The prompt and options entered so far. Stored in the browser, so that neither a reload nor an error loses them. */
export interface Draft {
  readonly prompt: string
  readonly repository: string
  /** The branch that the work starts from and goes back to. */
  readonly base: string
  readonly project: string
  readonly agent: string
  readonly model: string
  readonly priority: Priority
}

const EMPTY: Draft = { prompt: '', repository: '', base: '', project: '', agent: '', model: '', priority: 'MEDIUM' }

/** The ticket to create. Empty options are left to the control plane's defaults. */
export function ticketOf(draft: Draft): NewTicket {
  const { repository, base, project, agent, model } = trimmed(draft)
  return {
    // No title: the control plane derives it from the text and knows that it is derived. A title from here would make
    // texts with the same beginning look like duplicates.
    description: draft.prompt.trim(),
    workflow_mode: 'quick',
    priority: draft.priority,
    ...(repository === '' ? {} : { repository }),
    ...(base === '' ? {} : { base_branch: base }),
    ...(project === '' ? {} : { project_id: project }),
    ...(agent === '' ? {} : { agent }),
    ...(model === '' ? {} : { model }),
  }
}

const DRAFT = 'sunaba.command.draft'
const SENT = 'sunaba.command.sent'

export function loadDraft(): Draft {
  const stored = read(DRAFT)
  const text = (name: keyof Draft) => (typeof stored[name] === 'string' ? stored[name] : '')
  return {
    prompt: text('prompt'),
    repository: text('repository'),
    base: text('base'),
    project: text('project'),
    agent: text('agent'),
    model: text('model'),
    priority: PRIORITIES.find((priority) => priority === stored['priority']) ?? EMPTY.priority,
  }
}

export const saveDraft = (draft: Draft) => write(DRAFT, draft)

/**
 * The id for a new ticket. It is stored until the control plane has responded, so that a retry after a lost response is
 * idempotent. A different request gets a different id.
 */
export function ticketIdFor(ticket: NewTicket): string {
  const stored = read(SENT)
  const text = JSON.stringify(ticket)
  if (stored['ticket'] === text && typeof stored['id'] === 'string') return stored['id']
  const id = uniqueId('ticket')
  write(SENT, { id, ticket: text })
  return id
}

/** The ticket was created; the same text again is a new ticket. */
export const forgetTicketId = () => write(SENT, {})

function trimmed({ repository, base, project, agent, model }: Draft) {
  return {
    repository: repository.trim(),
    base: base.trim(),
    project: project.trim(),
    agent: agent.trim(),
    model: model.trim(),
  }
}

/** Invalid data, such as from another version, reads as empty. */
function read(key: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(textAt(key) ?? '{}')
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}

/** Without local storage the data lasts until the page is closed. */
function textAt(key: string): string | null {
  try {
    return localStorage.getItem(key)
  } catch {
    return inMemory.get(key) ?? null
  }
}

function write(key: string, value: object) {
  const text = JSON.stringify(value)
  inMemory.set(key, text)
  try {
    localStorage.setItem(key, text)
  } catch {
    // Without local storage the data lasts until the page is closed.
  }
}

const inMemory = new Map<string, string>()
