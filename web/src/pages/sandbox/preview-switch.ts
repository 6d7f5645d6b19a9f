import type { Tab } from './tab'

export interface PreviewState {
  readonly status: string
  /** The event that set the status. */
  readonly seq: number
}

/**
 * Whether to switch to the preview automatically: it became ready while the events are shown and the user has not
 * chosen a tab. `since` is the last event when the page was opened; a preview that was ready by then is ignored.
 */
export function shouldSwitchToPreview(
  before: PreviewState | null,
  current: PreviewState | null,
  tab: Tab,
  chosenByUser: boolean,
  since: number,
): boolean {
  if (tab !== 'events' || chosenByUser) return false
  if (current?.status !== 'ready' || current.seq <= since) return false
  return before?.status !== 'ready'
}
