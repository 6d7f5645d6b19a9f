import { type ReactNode, useMemo } from 'react'
import { classes } from '../util/classes'
import { count, plural } from '../util/numbers'
import { Ansi, plainText } from './ansi'
import { clip } from './clip'
import { CopyButton } from './copy'
import { useRetainedState } from './retained-state'

/** Machine output: the first lines, a button for the rest, and a button that copies all of it. */
export function Code({
  text,
  what = 'text',
  lines = 25,
  ansi = false,
  tone = 'plain',
  more,
}: {
  text: string
  /** Name for the copy button, such as "output". */
  what?: string
  lines?: number
  /** The text contains ANSI escape sequences. */
  ansi?: boolean
  tone?: 'plain' | 'bad'
  /** A control that loads what is not in `text`. */
  more?: ReactNode
}) {
  const [open, setOpen] = useRetainedState(`all ${what}`, false)
  const cut = useMemo(() => clip(text, lines), [text, lines])
  const shown = open ? text : cut.start
  return (
    <div className="group/code relative min-w-0">
      <pre
        className={classes(
          'overflow-x-auto rounded-md px-3 py-2 pr-9 font-mono text-[0.8125rem] leading-5 break-words whitespace-pre-wrap',
          tone === 'bad' ? 'bg-bad-soft text-bad' : 'bg-sunken text-ink',
        )}
      >
        {ansi ? <Ansi text={shown} /> : shown}
      </pre>
      <div className="absolute top-1 right-1 opacity-0 transition-opacity group-focus-within/code:opacity-100 group-hover/code:opacity-100 pointer-coarse:opacity-100">
        <CopyButton text={ansi ? () => plainText(text) : text} what={what} />
      </div>
      {!cut.complete && (
        <MoreButton onClick={() => setOpen(!open)}>
          {open ? 'Show less' : cut.hiddenLines > 0 ? showAll(cut.totalLines, cut.hiddenLines) : 'Show all'}
        </MoreButton>
      )}
      {more}
    </div>
  )
}

/** "Show all 4,211 lines", or for a few "Show all (3 more lines)". */
export const showAll = (total: number, hidden: number) =>
  hidden >= 100 ? `Show all ${count(total)} lines` : `Show all (${plural(hidden, 'more line')})`

/** Shows content that is collapsed by default. */
export function MoreButton({
  onClick,
  disabled = false,
  expanded,
  children,
}: {
  onClick: () => void
  disabled?: boolean
  /** Whether its content is expanded, if it expands something. */
  expanded?: boolean
  children: ReactNode
}) {
  return (
    <button
      type="button"
      disabled={disabled}
      aria-expanded={expanded}
      onClick={onClick}
      className="mt-1 inline-flex min-h-7 items-center gap-1.5 rounded px-1.5 text-xs font-medium text-accent hover:bg-accent-soft disabled:text-ink-faint"
    >
      {children}
    </button>
  )
}
