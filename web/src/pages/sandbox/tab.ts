/** The tabs of a sandbox, in order. */
export const TABS = ['events', 'preview', 'files', 'changes', 'terminal', 'replay', 'details'] as const
export type Tab = (typeof TABS)[number]

export const tabNames: Record<Tab, string> = {
  events: 'Events',
  preview: 'Preview',
  files: 'Files',
  changes: 'Changes',
  terminal: 'Terminal',
  replay: 'Replay',
  details: 'Details',
}

/** What a sandbox must have for some of the tabs. */
export interface Has {
  readonly preview: boolean
  /** Whether it has a task, whose work is on a branch or kept. */
  readonly changes: boolean
}

export const offeredTabs = (has: Has): readonly Tab[] =>
  TABS.filter((tab) => (tab !== 'preview' || has.preview) && (tab !== 'changes' || has.changes))

/** The tab in the URL, if the sandbox has it. */
export const tabOf = (value: string | null, has: Has): Tab => offeredTabs(has).find((tab) => tab === value) ?? 'events'
