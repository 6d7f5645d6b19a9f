import type { LogEvent } from '../../../timeline/event'
import { firstText } from '../../../timeline/read'

/** The provider of a sandbox and the source of its code, from its log. */
export interface Origin {
  readonly provider: string | null
  readonly repository: string | null
  readonly branch: string | null
}

/** The latest value wins: a branch may be created after the clone. */
export function originOf(events: readonly LogEvent[]): Origin {
  let origin: Origin = { provider: null, repository: null, branch: null }
  for (const { type, data } of events) {
    if (type.startsWith('sandbox.')) origin = { ...origin, provider: firstText(data, 'provider') ?? origin.provider }
    else if (type.startsWith('workspace.')) {
      origin = {
        ...origin,
        repository: firstText(data, 'repository') ?? origin.repository,
        branch: firstText(data, 'branch') ?? origin.branch,
      }
    } else if (type === 'agent.completed') {
      origin = { ...origin, branch: firstText(data, 'branch_name', 'branch') ?? origin.branch }
    }
  }
  return origin
}
