import { PRIORITIES, type NewTicket, type Priority } from '../../api/contract'
import { freshId } from '../../util/ids'

/** What somebody has written and chosen so far. This browser keeps it, so that no reload and no refusal loses it. */
export interface Draft {
  readonly prompt: string
  readonly repository: string
  readonly project: string
  readonly agent: string
  readonly model: string
  readonly priority: Priority
}

const BLANK: Draft = { prompt: '', repository: '', project: '', agent: '', model: '', priority: 'MEDIUM' }

/** What the draft asks the plane for. What is left empty is the plane's to choose. */
export function wishOf(draft: Draft): NewTicket {
  const { repository, project, agent, model } = trimmed(draft)
  return {
    // No title: the plane takes the beginning of the text, and knows then that it is no more than that. A title of ours
    // would make any two texts that begin alike look like the same wish.
    description: draft.prompt.trim(),
    workflow_mode: 'quick',
    priority: draft.priority,
    ...(repository === '' ? {} : { repository }),
    ...(project === '' ? {} : { project_id: project }),
    ...(agent === '' ? {} : { agent }),
    ...(model === '' ? {} : { model }),
  }
}

const DRAFT = 'sunaba.command.draft'
const SENT = 'sunaba.command.sent'

export function loadDraft(): Draft {
  const kept = read(DRAFT)
  const text = (name: keyof Draft) => (typeof kept[name] === 'string' ? kept[name] : '')
  return {
    prompt: text('prompt'),
    repository: text('repository'),
    project: text('project'),
    agent: text('agent'),
    model: text('model'),
    priority: PRIORITIES.find((priority) => priority === kept['priority']) ?? BLANK.priority,
  }
}

export const saveDraft = (draft: Draft) => write(DRAFT, draft)

/**
 * The id of the ticket that this wish will be. It is kept until the plane has answered: the same wish, sent again after
 * its answer was lost, is the same ticket. Another wish is another ticket.
 */
export function ticketIdFor(wish: NewTicket): string {
  const kept = read(SENT)
  const text = JSON.stringify(wish)
  if (kept['wish'] === text && typeof kept['id'] === 'string') return kept['id']
  const id = freshId('ticket')
  write(SENT, { id, wish: text })
  return id
}

/** The plane has the ticket: the same words asked for again are another one. */
export const forgetTicketId = () => write(SENT, {})

function trimmed(draft: Draft) {
  const { repository, project, agent, model } = draft
  return { repository: repository.trim(), project: project.trim(), agent: agent.trim(), model: model.trim() }
}

/** What is strange, because another version or somebody's hand wrote it, counts as nothing. */
function read(key: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(textAt(key) ?? '{}')
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}

/** A browser that keeps nothing has it until the page is closed. */
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
    // As above.
  }
}

const inMemory = new Map<string, string>()
