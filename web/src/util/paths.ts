/** Every path of the console. Nothing else spells one. */
export const paths = {
  command: '/command',
  /** A ticket on its way to its sandbox. */
  progress: (ticket: string) => `/command?ticket=${encodeURIComponent(ticket)}`,
  sandboxes: '/sandboxes',
  sandbox: (id: string) => `/sandbox/${encodeURIComponent(id)}`,
  /** A moment of a run: the replay, stopped at this event. */
  moment: (id: string, seq: number) => `/sandbox/${encodeURIComponent(id)}?tab=replay&at=${seq}`,
  /** A tab of the sandbox that is shown. */
  tab: (name: string) => `?tab=${name}`,
  compare: (left?: string, right?: string) => {
    const query = new URLSearchParams()
    if (left !== undefined) query.set('left', left)
    if (right !== undefined) query.set('right', right)
    return query.size > 0 ? `/compare?${query.toString()}` : '/compare'
  },
} as const

/** Every path of the plane. */
export const api = {
  tickets: '/api/v1/tickets',
  ticket: (id: string) => `/api/v1/tickets/${encodeURIComponent(id)}`,
  ticketEvents: (id: string) => `/api/v1/tickets/${encodeURIComponent(id)}/events`,
  approveTicket: (id: string) => `/api/v1/tickets/${encodeURIComponent(id)}/approve`,
  rejectTicket: (id: string) => `/api/v1/tickets/${encodeURIComponent(id)}/reject`,
  tasks: '/api/v1/tasks',
  taskEvents: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}/events`,
  task: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}`,
  failTask: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}/fail`,
  cancelTask: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}/cancel`,
  retryTask: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}/retry`,
  sandboxes: '/api/v1/sandboxes',
  sandbox: (id: string) => `/api/v1/sandboxes/${encodeURIComponent(id)}`,
  sandboxTask: (id: string) => `/api/v1/sandboxes/${encodeURIComponent(id)}/task`,
  judge: (id: string) => `/api/v1/sandboxes/${encodeURIComponent(id)}/validation-result`,
  events: (id: string) => `/api/v1/sandboxes/${encodeURIComponent(id)}/events`,
  eventBody: (id: string, seq: number) => `/api/v1/sandboxes/${encodeURIComponent(id)}/events/${seq}/body`,
  messages: (id: string) => `/api/v1/sandboxes/${encodeURIComponent(id)}/messages`,
  messageHistory: (id: string) => `/api/v1/sandboxes/${encodeURIComponent(id)}/messages/history`,
  cancelMessage: (id: string, message: string) =>
    `/api/v1/sandboxes/${encodeURIComponent(id)}/messages/${encodeURIComponent(message)}/cancel`,
  socket: '/api/v1/ws/events',
} as const
