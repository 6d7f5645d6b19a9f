import { type ReactNode, useMemo } from 'react'
import { classes } from '../util/classes'
import { count, plural } from '../util/numbers'
import { Ansi, plainText } from './ansi'
import { clip } from './clip'
import { CopyButton } from './copy'
import { useKept } from './kept'

/** Text of a machine: a beginning, a way to the rest, and a button that copies all of it. */
export function Code({
  text,
  what = 'text',
  lines = 25,
  ansi = false,
  tone = 'plain',
  more,
}: {
  text: string
  /** What is copied: "output". */
  what?: string
  lines?: number
  /** It came from a terminal. */
  ansi?: boolean
  tone?: 'plain' | 'bad'
  /** A way to what is not even in `text`. */
  more?: ReactNode
}) {
  const [open, setOpen] = useKept(`all ${what}`, false)
  const cut = useMemo(() => clip(text, lines), [text, lines])
  const shown = open ? text : cut.head
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
      {!cut.whole && (
        <MoreButton onClick={() => setOpen(!open)}>
          {open ? 'Show less' : cut.hiddenLines > 0 ? showAll(cut.totalLines, cut.hiddenLines) : 'Show all of it'}
        </MoreButton>
      )}
      {more}
    </div>
  )
}

/** "Show all 4,211 lines", or for a few "Show all (3 more lines)". */
export const showAll = (total: number, hidden: number) =>
  hidden >= 100 ? `Show all ${count(total)} lines` : `Show all (${plural(hidden, 'more line')})`

/** A quiet way to what was left out on purpose. */
export function MoreButton({
  onClick,
  disabled = false,
  expanded,
  children,
}: {
  onClick: () => void
  disabled?: boolean
  /** Whether what it opens is open, where it opens something. */
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
