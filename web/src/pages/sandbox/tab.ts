/** The tabs of a sandbox, in order. */
export const TABS = ['events', 'preview', 'files', 'terminal', 'replay', 'details'] as const
export type Tab = (typeof TABS)[number]

export const tabNames: Record<Tab, string> = {
  events: 'Events',
  preview: 'Preview',
  files: 'Files',
  terminal: 'Terminal',
  replay: 'Replay',
  details: 'Details',
}

/** The tab in the URL. The preview tab exists only with a preview. */
export function tabOf(value: string | null, hasPreview: boolean): Tab {
  const tab = TABS.find((each) => each === value) ?? 'events'
  return tab === 'preview' && !hasPreview ? 'events' : tab
}
