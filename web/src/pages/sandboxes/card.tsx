import { Ellipsis } from 'lucide-react'
import { memo } from 'react'
import { Link } from 'react-router'
import { StatusBadge } from '../../ui/status'
import { classes } from '../../util/classes'
import { dateAndTime, relative, useNow } from '../../util/time'
import type { Card } from './listing'
import { openMenu } from './menu'

/** The link covers the entire card, which shows the focus ring. */
const MAIN =
  'outline-none after:absolute after:inset-0 after:rounded-lg focus-visible:after:outline-2 focus-visible:after:-outline-offset-2 focus-visible:after:outline-accent'

/** A card. `isEntry` marks the one that Tab focuses; arrow keys move to the others. */
export const SandboxCard = memo(function SandboxCard({ card, isEntry }: { card: Card; isEntry: boolean }) {
  const now = useNow()
  const tabIndex = isEntry ? 0 : -1
  return (
    <article className="relative flex h-32 flex-col gap-1.5 overflow-hidden rounded-lg border border-line bg-surface p-3 contain-content hover:border-line-strong">
      <div className="flex items-center gap-2">
        <StatusBadge status={card.status} />
        <span className="min-w-0 truncate text-xs text-ink-faint">{card.type}</span>
        <time
          dateTime={card.createdAt}
          title={dateAndTime(card.createdAt)}
          className="ml-auto text-xs whitespace-nowrap text-ink-faint"
        >
          {relative(card.createdAt, now)}
        </time>
        <button
          type="button"
          tabIndex={tabIndex}
          aria-haspopup="menu"
          onClick={(event) => openMenu(event.currentTarget)}
          aria-label={`Actions for ${card.title}`}
          className="relative z-10 -my-1 -mr-1.5 inline-grid size-8 shrink-0 place-items-center rounded-md text-ink-faint hover:bg-sunken hover:text-ink"
        >
          <Ellipsis size={16} aria-hidden />
        </button>
      </div>
      <h2
        className={classes(
          'text-sm leading-snug font-medium break-words',
          card.error === null ? 'line-clamp-2' : 'line-clamp-1',
        )}
      >
        {card.href === null ? (
          <span data-main tabIndex={tabIndex} className={MAIN} title={card.title}>
            {card.title}
          </span>
        ) : (
          <Link data-main to={card.href} tabIndex={tabIndex} title={card.title} className={MAIN}>
            {card.title}
          </Link>
        )}
      </h2>
      {card.error !== null && (
        <p className="truncate text-xs text-bad" title={card.error}>
          {card.error}
        </p>
      )}
      <div className="mt-auto flex items-center gap-2 text-xs text-ink-faint">
        {card.sandboxId === null ? (
          <span>No sandbox yet</span>
        ) : (
          <span className="min-w-0 truncate font-mono" title={card.sandboxId}>
            {card.sandboxId}
          </span>
        )}
        {card.attempt > 1 && <span className="ml-auto whitespace-nowrap">Attempt {card.attempt}</span>}
      </div>
    </article>
  )
})

/** Placeholder while cards are loading. */
export function CardSkeleton() {
  return (
    <div className="flex h-32 animate-pulse flex-col gap-3 rounded-lg border border-line bg-surface p-3">
      <div className="h-4 w-24 rounded-full bg-sunken" />
      <div className="h-4 w-4/5 rounded bg-sunken" />
      <div className="h-4 w-1/2 rounded bg-sunken" />
      <div className="mt-auto h-3 w-2/5 rounded bg-sunken" />
    </div>
  )
}
