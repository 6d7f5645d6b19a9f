import { Ban, Check, ChevronDown, ChevronRight, CircleSlash, X } from 'lucide-react'
import type { ReactNode } from 'react'
import type { Progress } from '../../../timeline/rows'
import { useKept } from '../../../ui/kept'
import { Spinner } from '../../../ui/spinner'
import { classes } from '../../../util/classes'
import { duration, useSecond } from '../../../util/time'

/**
 * A card: one line that says what it is about, and what there is to see of it. With `folds` the line opens and closes
 * the rest; what went wrong never folds.
 */
export function Card({
  icon,
  title,
  aside,
  tone = 'plain',
  folds = null,
  isInside = false,
  children,
}: {
  icon: ReactNode
  title: ReactNode
  /** At the end of the line: counts, status, buttons. */
  aside?: ReactNode
  tone?: 'plain' | 'bad' | 'warn'
  /** Whether it is open at first; `null` for a card that does not fold. */
  folds?: 'open' | 'closed' | null
  /** It stands in another card, which has a border already. */
  isInside?: boolean
  children?: ReactNode
}) {
  const [open, setOpen] = useKept('card', folds !== 'closed')
  const foldable = folds !== null && hasContent(children)
  const shown = hasContent(children) && (open || !foldable)
  const line = (
    <>
      <span className={classes('shrink-0', tone === 'bad' ? 'text-bad' : tone === 'warn' ? 'text-warn' : 'text-ink-faint')}>{icon}</span>
      <span className="flex min-w-0 flex-1 items-baseline gap-2 overflow-hidden">{title}</span>
    </>
  )
  return (
    <section
      className={classes(
        'min-w-0 text-sm',
        isInside ? '-mx-3' : 'rounded-lg border bg-surface',
        tone === 'bad' ? 'border-bad/50' : tone === 'warn' ? 'border-warn/40' : 'border-line',
      )}
    >
      <div className="flex min-h-9 items-center gap-2 py-0.5 pr-2 pl-3">
        {foldable ? (
          <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="flex min-h-8 min-w-0 flex-1 items-center gap-2 rounded text-left">
            {line}
            <span className="shrink-0 text-ink-faint">
              {open ? <ChevronDown size={14} aria-hidden /> : <ChevronRight size={14} aria-hidden />}
            </span>
          </button>
        ) : (
          <div className="flex min-w-0 flex-1 items-center gap-2">{line}</div>
        )}
        {aside}
      </div>
      {shown && <div className="flex min-w-0 flex-col gap-2 px-3 pb-2.5">{children}</div>}
    </section>
  )
}

const hasContent = (children: ReactNode) =>
  Array.isArray(children) ? children.some(hasContent) : children !== undefined && children !== null && children !== false

/** The name of what was done, and what it was done to. */
export function Title({ name, about }: { name: string; about?: ReactNode }) {
  return (
    <>
      <span className="shrink-0 font-medium">{name}</span>
      {about !== undefined && <span className="min-w-0 truncate font-mono text-[0.8125rem] text-ink-soft">{about}</span>}
    </>
  )
}

const ends: Record<Exclude<Progress, 'running'> | 'refused', { word: string; icon: ReactNode; colour: string }> = {
  done: { word: 'Done', icon: <Check size={14} aria-hidden />, colour: 'text-good' },
  failed: { word: 'Failed', icon: <X size={14} aria-hidden />, colour: 'text-bad' },
  interrupted: { word: 'Interrupted', icon: <CircleSlash size={14} aria-hidden />, colour: 'text-warn' },
  refused: { word: 'Refused', icon: <Ban size={14} aria-hidden />, colour: 'text-warn' },
}

/** How far it has come, and how long it has taken. */
export function ProgressMark({
  status,
  since,
  durationMs,
}: {
  status: Progress | 'refused'
  /** When it began. */
  since: string
  durationMs: number | null
}) {
  if (status === 'running') return <Running since={since} />
  const end = ends[status]
  return (
    <span className={classes('flex shrink-0 items-center gap-1 text-xs whitespace-nowrap', end.colour)}>
      {end.icon}
      <span className={status === 'done' ? 'sr-only' : undefined}>{end.word}</span>
      {durationMs !== null && <span className="text-ink-faint tabular-nums">{duration(durationMs)}</span>}
    </span>
  )
}

function Running({ since }: { since: string }) {
  const elapsed = useSecond() - Date.parse(since)
  return (
    <span className="flex shrink-0 items-center gap-1 text-xs whitespace-nowrap text-info">
      <Spinner />
      Running
      {elapsed >= 2_000 && <span className="tabular-nums">{duration(elapsed)}</span>}
    </span>
  )
}
