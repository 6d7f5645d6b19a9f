import { type KeyboardEvent, type ReactNode, useMemo, useSyncExternalStore } from 'react'
import {
  type ChangeData,
  Decoration,
  Diff,
  type GutterOptions,
  getChangeKey,
  Hunk,
  type HunkData,
  type HunkTokens,
  markEdits,
  parseDiff,
  tokenize,
} from 'react-diff-view'
import 'react-diff-view/style/index.css'
import type { DiffComments, DiffLine } from './diff'
import './diff.css'

/** Loaded on demand by `diff.tsx`. */
export default function DiffView({
  body,
  type,
  split,
  numbers,
  comments,
  fallback,
}: {
  /** From the first `@@` on. */
  body: string
  type: 'add' | 'delete' | 'modify'
  split: boolean
  numbers: boolean
  comments: DiffComments | null
  /** Shown if the body is not a valid diff. */
  fallback: ReactNode
}) {
  const wide = useSyncExternalStore(onWidth, isWide)
  const hunks = useMemo(() => hunksOf(body), [body])
  const tokens = useMemo(() => (hunks === null ? null : edits(hunks)), [hunks])
  if (hunks === null) return fallback
  const onLine = comments?.onLine ?? null
  const diff = (
    <Diff
      className="diff-tokens"
      diffType={type}
      hunks={hunks}
      viewType={split && wide ? 'split' : 'unified'}
      gutterType={numbers ? 'default' : 'none'}
      tokens={tokens}
      widgets={comments === null ? {} : widgetsOf(hunks, comments)}
      {...(onLine === null ? {} : { renderGutter: gutterWith(onLine, firstKey(hunks)) })}
    >
      {(shown) =>
        shown.flatMap((hunk, index) => [
          ...(index === 0
            ? []
            : [
                <Decoration key={`before ${hunk.content}`}>
                  <span className="diff-gap">{hunk.content}</span>
                </Decoration>,
              ]),
          <Hunk key={hunk.content} hunk={hunk} />,
        ])
      }
    </Diff>
  )
  if (onLine === null) return diff
  return <div onKeyDown={moveBetweenLines}>{diff}</div>
}

function lineOf(change: ChangeData): DiffLine {
  switch (change.type) {
    case 'delete':
      return { side: 'old', line: change.lineNumber, code: change.content }
    case 'insert':
      return { side: 'new', line: change.lineNumber, code: change.content }
    case 'normal':
      return { side: 'new', line: change.newLineNumber, code: change.content }
  }
}

function widgetsOf(hunks: readonly HunkData[], { below }: DiffComments): Record<string, ReactNode> {
  const changes = hunks.flatMap((hunk) => hunk.changes)
  const widgets = changes.map((change): [string, ReactNode] => [getChangeKey(change), below(lineOf(change))])
  return Object.fromEntries(widgets.filter(([, widget]) => widget !== null))
}

const firstKey = (hunks: readonly HunkData[]) => {
  const first = hunks[0]?.changes[0]
  return first === undefined ? null : getChangeKey(first)
}

const COMMENT = 'diff-comment'

/** Line numbers as buttons. Only the first one is in the tab order: arrow keys reach the others. */
const gutterWith = (onLine: (line: DiffLine) => void, first: string | null) =>
  function Gutter({ change, side, renderDefault }: GutterOptions): ReactNode {
    const line = lineOf(change)
    if (line.side !== side) return renderDefault()
    return (
      <button
        type="button"
        className={COMMENT}
        tabIndex={getChangeKey(change) === first ? 0 : -1}
        aria-label={`Comment on ${line.side === 'old' ? 'removed line' : 'line'} ${line.line}`}
        onClick={() => onLine(line)}
      >
        {renderDefault()}
      </button>
    )
  }

function moveBetweenLines(event: KeyboardEvent<HTMLElement>) {
  const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
  const focused = event.target instanceof HTMLElement ? event.target : null
  if (step === 0 || focused?.classList.contains(COMMENT) !== true) return
  const buttons = [...event.currentTarget.querySelectorAll<HTMLElement>(`.${COMMENT}`)]
  event.preventDefault()
  buttons[buttons.indexOf(focused) + step]?.focus()
}

/** The parser requires file names; their values do not matter. */
const HEADER = 'diff --git a/file b/file\n--- a/file\n+++ b/file\n'

function hunksOf(body: string): HunkData[] | null {
  try {
    const hunks = parseDiff(HEADER + body)[0]?.hunks ?? []
    return hunks.some((hunk) => hunk.changes.length > 0) ? hunks : null
  } catch {
    return null
  }
}

/** Limit for highlighting within lines. More would make scrolling slow. */
const MAX_CHANGES = 200

function edits(hunks: HunkData[]): HunkTokens | null {
  const changes = hunks.flatMap((hunk) => hunk.changes)
  if (changes.length > MAX_CHANGES || changes.every((change) => change.type !== 'delete')) return null
  return tokenize(hunks, { enhancers: [markEdits(hunks, { type: 'block' })] })
}

const wideEnough = typeof matchMedia === 'function' ? matchMedia('(min-width: 64rem)') : null

function onWidth(listener: () => void) {
  wideEnough?.addEventListener('change', listener)
  return () => wideEnough?.removeEventListener('change', listener)
}

const isWide = () => wideEnough?.matches ?? true
