import { GitMerge, GitPullRequest, GitPullRequestClosed } from 'lucide-react'
import { Link } from 'react-router'
import { Badge } from '../../../ui/badge'
import { ofState, webAddress } from './pull-request-state'

const icons = { open: GitPullRequest, merged: GitMerge, closed: GitPullRequestClosed } as const

const LINK = 'text-xs font-medium whitespace-nowrap text-accent underline underline-offset-2'

/** Number and state of a pull request. */
export function PullRequestLink({
  number,
  url,
  state,
  otherwise = null,
}: {
  number: number
  url: string | null
  /** `null` while it is not known. */
  state: string | null
  /** Where the link leads if the pull request has no page at its code host; `null` for no link. */
  otherwise?: string | null
}) {
  const address = webAddress(url)
  const Icon = state === 'merged' || state === 'closed' ? icons[state] : icons.open
  const text = `Pull request #${number}`
  return (
    <span className="inline-flex items-center gap-1.5">
      {address !== null ? (
        <a href={address} target="_blank" rel="noopener noreferrer" className={LINK}>
          {text}
        </a>
      ) : otherwise !== null ? (
        <Link to={otherwise} className={LINK}>
          {text}
        </Link>
      ) : (
        <span className="font-medium">{text}</span>
      )}
      {state !== null && (
        <Badge tone={ofState(state).tone} icon={<Icon size={12} aria-hidden />}>
          {ofState(state).label}
        </Badge>
      )}
    </span>
  )
}
