import { type ReactNode, useMemo, useSyncExternalStore } from 'react'
import { Decoration, Diff, Hunk, type HunkData, type HunkTokens, markEdits, parseDiff, tokenize } from 'react-diff-view'
import 'react-diff-view/style/index.css'
import './diff.css'

/** Loaded on demand by `diff.tsx`. */
export default function DiffView({
  body,
  type,
  split,
  numbers,
  fallback,
}: {
  /** From the first `@@` on. */
  body: string
  type: 'add' | 'delete' | 'modify'
  split: boolean
  numbers: boolean
  /** Shown if the body is not a valid diff. */
  fallback: ReactNode
}) {
  const wide = useSyncExternalStore(onWidth, isWide)
  const hunks = useMemo(() => hunksOf(body), [body])
  const tokens = useMemo(() => (hunks === null ? null : edits(hunks)), [hunks])
  if (hunks === null) return fallback
  return (
    <Diff
      className="diff-tokens"
      diffType={type}
      hunks={hunks}
      viewType={split && wide ? 'split' : 'unified'}
      gutterType={numbers ? 'default' : 'none'}
      tokens={tokens}
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
