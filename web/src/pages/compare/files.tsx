import { ArrowLeft } from 'lucide-react'
import { useMemo } from 'react'
import { useSearchParams } from 'react-router'
import type { FileState } from '../../timeline/run'
import { Badge, type Tone } from '../../ui/badge'
import { Button } from '../../ui/button'
import { Lines } from '../../ui/diff'
import { RetainState } from '../../ui/retained-state'
import { Empty } from '../../ui/states'
import { classes } from '../../util/classes'
import { count } from '../../util/numbers'
import { FileChanges } from '../sandbox/tabs/file-changes'
import { changeLabels } from '../sandbox/tabs/file-status'
import { type ComparedFile, compareFiles, verdictLabels } from './compare'
import type { Side } from './use-side'

const tones: Record<ComparedFile['verdict'], Tone> = {
  'only left': 'warn',
  'only right': 'warn',
  same: 'good',
  different: 'accent',
  unknown: 'info',
}

function VerdictBadge({ verdict }: { verdict: ComparedFile['verdict'] }) {
  return <Badge tone={tones[verdict]}>{verdictLabels[verdict]}</Badge>
}

const MAX_SUMMARY_FILES = 12

/** A summary of the files, different ones first. */
export function FileSummary({
  left,
  right,
  onChoose,
}: {
  left: Side
  right: Side
  onChoose: (path: string | null) => void
}) {
  const files = useMemo(() => compareFiles(left.run.files, right.run.files), [left, right])
  const shown = files
    .toSorted((a, b) => Number(a.verdict === 'same') - Number(b.verdict === 'same'))
    .slice(0, MAX_SUMMARY_FILES)
  return (
    <section aria-label="Files" className="min-w-0 rounded-xl border border-line bg-surface">
      <h2 className="px-4 pt-3 pb-2 text-sm font-semibold">Files</h2>
      {files.length === 0 && <p className="px-4 pb-4 text-sm text-ink-soft">No files changed in either run.</p>}
      <ul className="pb-2">
        {shown.map((file) => (
          <li key={file.path}>
            <button
              type="button"
              onClick={() => onChoose(file.path)}
              className="flex min-h-9 w-full items-center gap-3 px-4 py-1 text-left hover:bg-sunken"
            >
              <span className="min-w-0 flex-1 truncate font-mono text-[0.8125rem]" title={file.path}>
                {file.path}
              </span>
              <VerdictBadge verdict={file.verdict} />
            </button>
          </li>
        ))}
      </ul>
      {files.length > shown.length && (
        <div className="px-3 pb-3">
          <Button variant="quiet" onClick={() => onChoose(null)}>
            Show all {count(files.length)} files
          </Button>
        </div>
      )}
    </section>
  )
}

/** All changed files, and the changes of both runs to the selected one side by side. */
export function ComparedFiles({ left, right }: { left: Side; right: Side }) {
  const [parameters, setParameters] = useSearchParams()
  const files = useMemo(() => compareFiles(left.run.files, right.run.files), [left, right])
  const requested = parameters.get('file')
  const chosen = files.find((file) => file.path === requested) ?? null
  const choose = (path: string | null) =>
    setParameters((before) => {
      const after = new URLSearchParams(before)
      if (path === null) after.delete('file')
      else after.set('file', path)
      return after
    })
  if (files.length === 0) return <Empty title="No files changed in either run" />
  return (
    <div className="flex h-full min-h-0">
      <div
        className={classes(
          'min-h-0 w-full flex-col overflow-auto md:flex md:w-96 md:shrink-0 md:border-r md:border-line',
          chosen === null ? 'flex' : 'hidden',
        )}
      >
        <Tally files={files} />
        <ul aria-label="Files of both runs">
          {files.map((file) => (
            <li key={file.path}>
              <button
                type="button"
                aria-current={file.path === chosen?.path ? 'true' : undefined}
                onClick={() => choose(file.path)}
                className="flex min-h-9 w-full items-center gap-2 px-3 py-1 text-left hover:bg-sunken aria-[current]:bg-accent-soft"
              >
                <span className="min-w-0 flex-1 truncate font-mono text-[0.8125rem]" title={file.path}>
                  {file.path}
                </span>
                <VerdictBadge verdict={file.verdict} />
              </button>
            </li>
          ))}
        </ul>
      </div>
      <div className={classes('min-h-0 min-w-0 flex-1 overflow-auto md:block', chosen === null ? 'hidden' : 'block')}>
        {chosen === null ? (
          <Empty title="Choose a file">Its changes in both runs are shown here.</Empty>
        ) : (
          <article aria-label={chosen.path} className="flex flex-col gap-3 p-3 sm:p-4">
            <header className="flex flex-wrap items-center gap-2">
              <Button variant="quiet" className="md:hidden" onClick={() => choose(null)}>
                <ArrowLeft size={15} aria-hidden /> All files
              </Button>
              <h2 className="min-w-0 font-mono text-sm font-semibold break-all">{chosen.path}</h2>
              <VerdictBadge verdict={chosen.verdict} />
            </header>
            <div className="grid gap-4 xl:grid-cols-2">
              <FileOfSide name="Left" side={left} file={chosen.left} />
              <FileOfSide name="Right" side={right} file={chosen.right} />
            </div>
          </article>
        )}
      </div>
    </div>
  )
}

function Tally({ files }: { files: readonly ComparedFile[] }) {
  const verdicts = Object.keys(verdictLabels).filter(isVerdict)
  const counted = verdicts.flatMap((verdict) => {
    const number = files.filter((file) => file.verdict === verdict).length
    return number === 0 ? [] : [`${verdictLabels[verdict].toLowerCase()} ${count(number)}`]
  })
  return (
    <p className="border-b border-line px-3 py-2 text-sm text-ink-soft first-letter:uppercase">{counted.join(', ')}</p>
  )
}

const isVerdict = (value: string): value is ComparedFile['verdict'] => value in verdictLabels

function FileOfSide({ name, side, file }: { name: string; side: Side; file: FileState | null }) {
  return (
    <section aria-label={name} className="min-w-0">
      <h3 className="mb-2 flex items-center gap-2 text-sm font-medium">
        {name}
        {file !== null && (
          <>
            <span className="font-normal text-ink-soft">{changeLabels[file.status]}</span>
            <Lines added={file.added} removed={file.removed} />
          </>
        )}
      </h3>
      {file === null ? (
        <p className="rounded-lg border border-dashed border-line px-3 py-6 text-center text-sm text-ink-soft">
          Not changed in this run.
        </p>
      ) : (
        <RetainState key={`${side.sandboxId} ${file.path}`}>
          <FileChanges sandboxId={side.sandboxId} changes={file.changes} />
        </RetainState>
      )}
    </section>
  )
}
