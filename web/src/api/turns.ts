import { EVENT_TYPES, type KnownEventType } from './contract'

/** Whatever the plane tells of tasks. A socket takes forty names; with what pages add there is room for ten more. */
export const TASK_TURNS: readonly KnownEventType[] = EVENT_TYPES.filter((type) => type.startsWith('task.'))

/** Whatever it tells of tickets. */
export const TICKET_TURNS: readonly KnownEventType[] = EVENT_TYPES.filter((type) => type.startsWith('ticket.'))
