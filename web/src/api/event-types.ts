import { EVENT_TYPES, type KnownEventType } from './contract'

/** All task events. A socket accepts forty event types; with those that pages add there is room for ten more. */
export const TASK_EVENT_TYPES: readonly KnownEventType[] = EVENT_TYPES.filter((type) => type.startsWith('task.'))

export const TICKET_EVENT_TYPES: readonly KnownEventType[] = EVENT_TYPES.filter((type) => type.startsWith('ticket.'))
