import { Suspense, lazy, memo } from 'react'
import { plural } from '../util/numbers'
import { MoreButton, showAll } from './code'
import { useKept } from './kept'
import { clip } from './clip'

const DiffView = lazy(() => import('./diff-view'))

/** A unified diff, or why there is none. Side by side only where there is room for it. */
export const Diff = memo(function Diff({
  diff,
  binary = false,
  split = false,
  lines = 25,
  numbers = true,
}: {
  /** From `---` or from the first `@@` on. */
  diff: string
  binary?: boolean
  split?: boolean
  /** How many are shown at first. */
  lines?: number
  /** Whether it is known where in the file this is. */
  numbers?: boolean
}) {
  const [open, setOpen] = useKept('all of the diff', false)
  if (binary) return <Note>This file is not text. Its contents are not shown.</Note>
  if (diff.trim() === '') return <Note>No line of it has changed.</Note>
  const body = bodyOf(diff)
  const cut = clip(body, lines)
  const shown = open ? body : cut.head
  return (
    <div className="min-w-0">
      <Suspense fallback={<Raw text={shown} />}>
        <DiffView body={shown} type={typeOf(diff)} split={split} numbers={numbers} fallback={<Raw text={shown} />} />
      </Suspense>
      {!cut.whole && (
        <MoreButton onClick={() => setOpen(!open)}>
          {open ? 'Show less' : cut.hiddenLines > 0 ? showAll(cut.totalLines, cut.hiddenLines) : 'Show all of it'}
        </MoreButton>
      )}
    </div>
  )
})

/** "+3 −1", in words for those who do not see it. */
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

/** The changes without what names the files: a card has said that already. */
function bodyOf(diff: string): string {
  const start = diff.startsWith('@@') ? 0 : diff.indexOf('\n@@') + 1
  return start > 0 || diff.startsWith('@@') ? diff.slice(start) : diff
}

function typeOf(diff: string): 'add' | 'delete' | 'modify' {
  const header = diff.slice(0, diff.length - bodyOf(diff).length)
  if (/^--- \/dev\/null/m.test(header)) return 'add'
  return /^\+\+\+ \/dev\/null/m.test(header) ? 'delete' : 'modify'
}
