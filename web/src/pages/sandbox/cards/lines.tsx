import { CircleAlert, Globe } from 'lucide-react'
import { Link } from 'react-router'
import type { ErrorRow, IterationRow, LineRow, PreviewRow, Tone, TurnRow } from '../../../timeline/rows'
import { Badge } from '../../../ui/badge'
import { Code } from '../../../ui/code'
import { Spinner } from '../../../ui/spinner'
import { classes } from '../../../util/classes'
import { count, dollars } from '../../../util/numbers'
import { duration } from '../../../util/time'
import { paths } from '../../../util/paths'

const colours: Record<Tone, string> = {
  quiet: 'text-ink-faint',
  good: 'text-good',
  bad: 'text-bad',
  warn: 'text-warn',
  info: 'text-info',
}

export function LineCard({ row }: { row: LineRow }) {
  return (
    <p className={classes('flex flex-wrap justify-center gap-x-2 text-center text-xs', colours[row.tone])}>
      <span className={row.tone === 'quiet' ? undefined : 'font-medium'}>{row.text}</span>
      {row.detail !== null && <span className="max-w-full break-words text-ink-faint">{row.detail}</span>}
    </p>
  )
}

export function ErrorCard({ row }: { row: ErrorRow }) {
  return (
    <section className="min-w-0 rounded-lg border border-bad/50 bg-bad-soft px-4 py-2.5 text-sm">
      <p className="flex items-center gap-2 font-medium text-bad">
        <CircleAlert size={15} aria-hidden className="shrink-0" />
        <span className="min-w-0 break-words">{row.title}</span>
        {row.recovers && <span className="ml-auto shrink-0 text-xs font-normal">Recovering</span>}
      </p>
      {row.text !== '' && (
        <div className="mt-1.5">
          <Code text={row.text} what="error" lines={40} tone="bad" ansi />
        </div>
      )}
    </section>
  )
}

export function IterationCard({ row }: { row: IterationRow }) {
  return (
    <p className="flex flex-wrap items-center justify-center gap-2 text-xs text-ink-soft">
      <Badge tone={row.tone}>{row.text}</Badge>
      {row.detail !== null && <span className="break-words">{row.detail}</span>}
    </p>
  )
}

/** A divider between turns with the cost of the turn above. */
export function TurnCard({ row }: { row: TurnRow }) {
  const label = row.interrupted ? 'Turn interrupted' : row.success ? 'Turn completed' : 'Turn failed'
  const facts = [
    row.costUsd === null ? null : dollars(row.costUsd),
    row.inputTokens === null && row.outputTokens === null
      ? null
      : `${count(row.inputTokens ?? 0)} tokens in, ${count(row.outputTokens ?? 0)} out`,
    row.durationMs === null ? null : duration(row.durationMs),
  ].filter((fact) => fact !== null)
  const colour = row.interrupted ? 'text-warn' : row.success ? 'text-ink-faint' : 'text-bad'
  return (
    <div className="py-1 text-xs">
      <div className="flex items-center gap-3">
        <span className="h-px flex-1 bg-line" />
        <span className={classes('text-center tabular-nums', colour)}>{[label, ...facts].join(' · ')}</span>
        <span className="h-px flex-1 bg-line" />
      </div>
      {row.detail !== null && <p className={classes('mt-0.5 text-center break-words', colour)}>{row.detail}</p>}
    </div>
  )
}

const previewLabels: Record<PreviewRow['status'], { label: string; tone: Tone }> = {
  starting: { label: 'Preview starting', tone: 'info' },
  ready: { label: 'Preview ready', tone: 'good' },
  failed: { label: 'Preview failed', tone: 'bad' },
  stopped: { label: 'Preview stopped', tone: 'quiet' },
}

export function PreviewCard({ row }: { row: PreviewRow }) {
  const { label, tone } = previewLabels[row.status]
  const about = [row.framework, row.port === null ? null : `port ${row.port}`]
    .filter((fact) => fact !== null)
    .join(', ')
  return (
    <p className={classes('flex flex-wrap items-center justify-center gap-2 text-xs', colours[tone])}>
      {row.status === 'starting' ? <Spinner size={12} /> : <Globe size={13} aria-hidden />}
      <span className="font-medium">{label}</span>
      {about !== '' && <span className="text-ink-soft">{about}</span>}
      {row.detail !== null && <span className="break-words text-ink-soft">{row.detail}</span>}
      {row.status === 'ready' && (
        <Link to={paths.tab('preview')} className="font-medium text-accent underline underline-offset-2">
          Open preview
        </Link>
      )}
    </p>
  )
}
