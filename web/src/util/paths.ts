/** A page of the console. */
interface Page {
  /** The pattern of its path, as the router reads it. */
  readonly route: string
  /** Its name in the menu; `null` if it has no entry. */
  readonly menu: string | null
}

/**
 * Every page. The router, the menu and the browser tests of all pages (accessibility, screens) follow this list: a page
 * without a component, an icon for the menu or a path to test does not compile.
 */
export const pages = {
  command: { route: '/command', menu: 'Command' },
  sandboxes: { route: '/sandboxes', menu: 'Sandboxes' },
  sandbox: { route: '/sandbox/:id', menu: null },
  compare: { route: '/compare', menu: 'Compare' },
} as const satisfies Readonly<Record<string, Page>>

export type PageName = keyof typeof pages

/** The pages in the menu. */
export type MenuPage = { [Name in PageName]: (typeof pages)[Name]['menu'] extends string ? Name : never }[PageName]

/** The links to pages. No other module builds one. */
export const paths = {
  command: pages.command.route,
  /** Progress of a ticket until its sandbox runs. */
  progress: (ticket: string) => `${pages.command.route}?ticket=${encodeURIComponent(ticket)}`,
  sandboxes: pages.sandboxes.route,
  sandbox: (id: string) => `/sandbox/${encodeURIComponent(id)}`,
  /** The replay, paused at this event. */
  moment: (id: string, seq: number) => `/sandbox/${encodeURIComponent(id)}?tab=replay&at=${seq}`,
  /** A tab of the current sandbox. */
  tab: (name: string) => `?tab=${name}`,
  compare: (left?: string, right?: string) => {
    const query = new URLSearchParams()
    if (left !== undefined) query.set('left', left)
    if (right !== undefined) query.set('right', right)
    return query.size > 0 ? `${pages.compare.route}?${query.toString()}` : pages.compare.route
  },
} as const

/** Every path of the API. */
export const api = {
  signIn: '/api/v1/sign-in',
  tickets: '/api/v1/tickets',
  ticket: (id: string) => `/api/v1/tickets/${encodeURIComponent(id)}`,
  ticketEvents: (id: string) => `/api/v1/tickets/${encodeURIComponent(id)}/events`,
  approveTicket: (id: string) => `/api/v1/tickets/${encodeURIComponent(id)}/approve`,
  rejectTicket: (id: string) => `/api/v1/tickets/${encodeURIComponent(id)}/reject`,
  mergeTicket: (id: string) => `/api/v1/tickets/${encodeURIComponent(id)}/merge`,
  tasks: '/api/v1/tasks',
  taskEvents: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}/events`,
  task: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}`,
  failTask: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}/fail`,
  cancelTask: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}/cancel`,
  retryTask: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}/retry`,
  taskDiff: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}/diff`,
  pullRequest: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}/pull-request`,
  taskWorkspace: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}/workspace`,
  taskWorkspaceFiles: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}/workspace/files`,
  feedbackRounds: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}/feedback-rounds`,
  mergeTask: (id: string) => `/api/v1/tasks/${encodeURIComponent(id)}/merge`,
  repositories: '/api/v1/repositories',
  repositoryBranches: '/api/v1/repositories/branches',
  sandboxes: '/api/v1/sandboxes',
  sandbox: (id: string) => `/api/v1/sandboxes/${encodeURIComponent(id)}`,
  sandboxTask: (id: string) => `/api/v1/sandboxes/${encodeURIComponent(id)}/task`,
  previewLink: (id: string, port: number) => `/api/v1/sandboxes/${encodeURIComponent(id)}/previews/${port}`,
  reviewResult: (id: string) => `/api/v1/sandboxes/${encodeURIComponent(id)}/validation-result`,
  events: (id: string) => `/api/v1/sandboxes/${encodeURIComponent(id)}/events`,
  eventBody: (id: string, seq: number) => `/api/v1/sandboxes/${encodeURIComponent(id)}/events/${seq}/body`,
  messages: (id: string) => `/api/v1/sandboxes/${encodeURIComponent(id)}/messages`,
  messageHistory: (id: string) => `/api/v1/sandboxes/${encodeURIComponent(id)}/messages/history`,
  cancelMessage: (id: string, message: string) =>
    `/api/v1/sandboxes/${encodeURIComponent(id)}/messages/${encodeURIComponent(message)}/cancel`,
  resendMessage: (id: string, message: string) =>
    `/api/v1/sandboxes/${encodeURIComponent(id)}/messages/${encodeURIComponent(message)}/resend`,
  socket: '/api/v1/ws/events',
} as const
