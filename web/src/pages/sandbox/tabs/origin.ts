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
  for (const event of events) {
    switch (event.type) {
      case 'sandbox.pending':
      case 'sandbox.preparing':
      case 'sandbox.creating':
      case 'sandbox.uploading':
      case 'sandbox.starting':
      case 'sandbox.spawned':
      case 'sandbox.running':
      case 'sandbox.retrying':
      case 'sandbox.failed':
        origin = { ...origin, provider: firstText(event.data, 'provider') ?? origin.provider }
        break
      case 'workspace.cloning':
      case 'workspace.ready': {
        const repository = firstText(event.data, 'repository') ?? origin.repository
        origin = { ...origin, repository, branch: firstText(event.data, 'branch') ?? origin.branch }
        break
      }
      case 'agent.completed':
        origin = { ...origin, branch: firstText(event.data, 'branch_name') ?? origin.branch }
        break
      default:
        break
    }
  }
  return origin
}
