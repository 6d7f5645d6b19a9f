import type { Tab } from './tab'

/** What is known of a preview. */
export interface Seen {
  readonly status: string
  /** The event that says so. */
  readonly seq: number
}

/**
 * Whether the page goes to the preview by itself: it became ready while the reader watched the events and had chosen no
 * tab. `since` is the last event there was when the page was opened: a preview that was ready by then is old news.
 */
export function goesToPreview(before: Seen | null, now: Seen | null, tab: Tab, chosenByHand: boolean, since: number): boolean {
  if (tab !== 'events' || chosenByHand) return false
  if (now?.status !== 'ready' || now.seq <= since) return false
  return before?.status !== 'ready'
}
