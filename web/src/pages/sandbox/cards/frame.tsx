import { Ban, Check, ChevronDown, ChevronRight, CircleSlash, X } from 'lucide-react'
import type { ReactNode } from 'react'
import type { Progress } from '../../../timeline/rows'
import { useRetainedState } from '../../../ui/retained-state'
import { Spinner } from '../../../ui/spinner'
import { classes } from '../../../util/classes'
import { duration, useSecond } from '../../../util/time'

/**
 * A card: a title line and its content. With `folds` the line expands and collapses the content. Errors never collapse.
 */
export function Card({
  icon,
  title,
  aside,
  tone = 'plain',
  folds = null,
  isNested = false,
  children,
}: {
  icon: ReactNode
  title: ReactNode
  /** At the end of the line: counts, status, buttons. */
  aside?: ReactNode
  tone?: 'plain' | 'bad' | 'warn'
  /** Initial state; `null` for a card that does not collapse. */
  folds?: 'open' | 'closed' | null
  /** It is inside another card, which already has a border. */
  isNested?: boolean
  children?: ReactNode
}) {
  const [open, setOpen] = useRetainedState('card', folds !== 'closed')
  const foldable = folds !== null && hasContent(children)
  const shown = hasContent(children) && (open || !foldable)
  const line = (
    <>
      <span
        className={classes('shrink-0', tone === 'bad' ? 'text-bad' : tone === 'warn' ? 'text-warn' : 'text-ink-faint')}
      >
        {icon}
      </span>
      <span className="flex min-w-0 flex-1 items-baseline gap-2 overflow-hidden">{title}</span>
    </>
  )
  return (
    <section
      className={classes(
        'min-w-0 text-sm',
        isNested ? '-mx-3' : 'rounded-lg border bg-surface',
        tone === 'bad' ? 'border-bad/50' : tone === 'warn' ? 'border-warn/40' : 'border-line',
      )}
    >
      <div className="flex min-h-9 items-center gap-2 py-0.5 pr-2 pl-3">
        {foldable ? (
          <button
            type="button"
            aria-expanded={open}
            onClick={() => setOpen(!open)}
            className="flex min-h-8 min-w-0 flex-1 items-center gap-2 rounded text-left"
          >
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
  Array.isArray(children)
    ? children.some(hasContent)
    : children !== undefined && children !== null && children !== false

/** The name of an action and its object. */
export function Title({ name, about }: { name: string; about?: ReactNode }) {
  return (
    <>
      <span className="shrink-0 font-medium">{name}</span>
      {about !== undefined && (
        <span className="min-w-0 truncate font-mono text-[0.8125rem] text-ink-soft">{about}</span>
      )}
    </>
  )
}

const endStates: Record<Exclude<Progress, 'running'> | 'denied', { label: string; icon: ReactNode; colour: string }> = {
  done: { label: 'Done', icon: <Check size={14} aria-hidden />, colour: 'text-good' },
  failed: { label: 'Failed', icon: <X size={14} aria-hidden />, colour: 'text-bad' },
  interrupted: { label: 'Interrupted', icon: <CircleSlash size={14} aria-hidden />, colour: 'text-warn' },
  denied: { label: 'Denied', icon: <Ban size={14} aria-hidden />, colour: 'text-warn' },
}

/** Status and duration. */
export function ProgressMark({
  status,
  since,
  durationMs,
}: {
  status: Progress | 'denied'
  since: string
  durationMs: number | null
}) {
  if (status === 'running') return <Running since={since} />
  const end = endStates[status]
  return (
    <span className={classes('flex shrink-0 items-center gap-1 text-xs whitespace-nowrap', end.colour)}>
      {end.icon}
      <span className={status === 'done' ? 'sr-only' : undefined}>{end.label}</span>
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
