import { type ReactNode, Suspense, lazy, memo } from 'react'
import { plural } from '../util/numbers'
import { MoreButton, showAll } from './code'
import { useRetainedState } from './retained-state'
import { clip } from './clip'

const DiffView = lazy(() => import('./diff-view'))

/** A line of a diff: on its old side if it was removed, otherwise on the new one. */
export interface DiffLine {
  readonly side: 'old' | 'new'
  readonly line: number
  readonly code: string
}

/** What readers say about lines. */
export interface DiffComments {
  /** Shown below a line. */
  readonly below: (line: DiffLine) => ReactNode
  /** The reader has chosen a line; `null` if they cannot. */
  readonly onLine: ((line: DiffLine) => void) | null
}

/** A unified diff, or the reason why there is none. Side by side only on wide screens. */
export const Diff = memo(function Diff({
  diff,
  binary = false,
  split = false,
  lines = 25,
  numbers = true,
  comments = null,
}: {
  /** From `---` or from the first `@@` on. */
  diff: string
  binary?: boolean
  split?: boolean
  /** Number of lines shown before expanding. */
  lines?: number
  /** Whether line numbers are known. */
  numbers?: boolean
  comments?: DiffComments | null
}) {
  const [open, setOpen] = useRetainedState('all of the diff', false)
  if (binary) return <Note>Binary file. Contents are not shown.</Note>
  if (diff.trim() === '') return <Note>No lines changed.</Note>
  const body = bodyOf(diff)
  const cut = clip(body, lines)
  const shown = open ? body : cut.start
  return (
    <div className="min-w-0">
      <Suspense fallback={<Raw text={shown} />}>
        <DiffView
          body={shown}
          type={typeOf(diff)}
          split={split}
          numbers={numbers}
          comments={comments}
          fallback={<Raw text={shown} />}
        />
      </Suspense>
      {!cut.complete && (
        <MoreButton onClick={() => setOpen(!open)}>
          {open ? 'Show less' : cut.hiddenLines > 0 ? showAll(cut.totalLines, cut.hiddenLines) : 'Show all'}
        </MoreButton>
      )}
    </div>
  )
})

/** "+3 −1", with a text alternative for screen readers. */
export function Lines({ added, removed }: { added: number; removed: number }) {
  return (
    <span className="font-mono text-xs whitespace-nowrap tabular-nums">
      <span className="sr-only">
        {plural(added, 'line')} added, {plural(removed, 'line')} removed
      </span>
      <span aria-hidden>
        {added > 0 && <span className="text-good">+{added}</span>}
        {added > 0 && removed > 0 && ' '}
        {removed > 0 && <span className="text-bad">−{removed}</span>}
      </span>
    </span>
  )
}

function Note({ children }: { children: string }) {
  return <p className="px-3 py-2 text-sm text-ink-soft">{children}</p>
}

function Raw({ text }: { text: string }) {
  return (
    <pre className="overflow-x-auto font-mono text-[0.8125rem] leading-5 break-words whitespace-pre-wrap text-ink-soft">
      {text}
    </pre>
  )
}

/** The hunks without the file header, since the card shows the file name. */
function bodyOf(diff: string): string {
  const start = diff.startsWith('@@') ? 0 : diff.indexOf('\n@@') + 1
  return start > 0 || diff.startsWith('@@') ? diff.slice(start) : diff
}

function typeOf(diff: string): 'add' | 'delete' | 'modify' {
  const header = diff.slice(0, diff.length - bodyOf(diff).length)
  if (/^--- \/dev\/null/m.test(header)) return 'add'
  return /^\+\+\+ \/dev\/null/m.test(header) ? 'delete' : 'modify'
}
