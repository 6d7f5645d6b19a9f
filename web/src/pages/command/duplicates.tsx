import { Link } from 'react-router'
import type { Duplicates } from '../../api/contract'
import { Button } from '../../ui/button'
import { plural } from '../../util/numbers'
import { paths } from '../../util/paths'

/** Open tickets that are similar to the new one. */
export function DuplicateTickets({ found, onCreate }: { found: Duplicates; onCreate: () => void }) {
  return (
    <section
      role="alert"
      aria-label="Similar tickets"
      className="rounded-lg border border-warn/40 bg-warn-soft p-4 text-sm"
    >
      <p className="font-medium text-warn">
        {plural(found.candidates.length, 'similar open ticket', 'similar open tickets')} found. No ticket was created.
      </p>
      <ul className="mt-2 flex flex-col gap-1">
        {found.candidates.map((candidate) => (
          <li key={candidate.ticket_id} className="flex items-baseline gap-3">
            <Link to={paths.progress(candidate.ticket_id)} className="min-w-0 truncate text-ink underline">
              {candidate.title}
            </Link>
            <span className="ml-auto whitespace-nowrap text-ink-soft">
              {Math.round(candidate.similarity_score * 100)}% similar
            </span>
          </li>
        ))}
      </ul>
      <Button className="mt-3" onClick={onCreate}>
        Create anyway
      </Button>
    </section>
  )
}
