import type { CheckOut, PullRequestOut } from '../../../api/contract'
import type { Tone } from '../../../ui/badge'

export type State = 'open' | 'merged' | 'closed'

/** Label and colour of a state. The plane may send one that this console does not know; it is shown as it is. */
export interface Look {
  readonly label: string
  readonly tone: Tone
}

const states: Record<State, Look> = {
  open: { label: 'Open', tone: 'info' },
  merged: { label: 'Merged', tone: 'good' },
  closed: { label: 'Closed', tone: 'quiet' },
}

export const ofState = (state: string): Look => known(states, state)

const results: Record<'success' | 'failure' | 'pending' | 'neutral', Look> = {
  success: { label: 'Passed', tone: 'good' },
  failure: { label: 'Failed', tone: 'bad' },
  pending: { label: 'Running', tone: 'warn' },
  neutral: { label: 'Neutral', tone: 'quiet' },
}

export const ofCheck = (check: Pick<CheckOut, 'state'>): Look => known(results, check.state)

const summaries: Record<'success' | 'failure' | 'pending', Look> = {
  success: { label: 'Checks passed', tone: 'good' },
  failure: { label: 'Checks failed', tone: 'bad' },
  pending: { label: 'Checks running', tone: 'warn' },
}

/** All checks together; `null` if there are none. */
export const ofChecks = (pull: Pick<PullRequestOut, 'ci_status'>): Look | null =>
  pull.ci_status === null ? null : known(summaries, pull.ci_status)

function known<Name extends string>(looks: Record<Name, Look>, name: string): Look {
  return Object.hasOwn(looks, name) ? looks[name as Name] : { label: name, tone: 'quiet' }
}

/** The first characters of a commit, as git abbreviates it. */
export const shortCommit = (commit: string) => commit.slice(0, 7)

/** The address, if a browser can open it. A pull request of a local repository is only a ref. */
export function webAddress(url: string | null): string | null {
  if (url === null || !URL.canParse(url)) return null
  return ['http:', 'https:'].includes(new URL(url).protocol) ? url : null
}
