import { ArrowLeftRight } from 'lucide-react'
import { Tabs } from 'radix-ui'
import { Link, useSearchParams } from 'react-router'
import { ApiError } from '../api/http'
import type { FullLog } from '../api/full-log'
import { Button } from '../ui/button'
import { Spinner } from '../ui/spinner'
import { Empty, Failed } from '../ui/states'
import { count } from '../util/numbers'
import { paths } from '../util/paths'
import { AlignedSteps } from './compare/aligned'
import { ComparedFiles } from './compare/files'
import { RunPicker } from './compare/picker'
import { Summary } from './compare/summary'
import { type Side, useRecentRuns, useSide } from './compare/use-side'

const views = [
  { value: 'summary', name: 'Summary' },
  { value: 'files', name: 'Files' },
  { value: 'steps', name: 'Steps' },
] as const

/** Two runs side by side: `/compare?left=<id>&right=<id>`. */
export default function ComparePage() {
  const [parameters, setParameters] = useSearchParams()
  const recent = useRecentRuns()
  const [leftId, rightId] = [parameters.get('left'), parameters.get('right')]
  const left = useSide(leftId)
  const right = useSide(rightId)
  const view = views.find((each) => each.value === parameters.get('view'))?.value ?? 'summary'
  const change = (values: Record<string, string | null>, replace = false) =>
    setParameters(
      (before) => {
        const after = new URLSearchParams(before)
        for (const [name, value] of Object.entries(values)) {
          if (value === null) after.delete(name)
          else after.set(name, value)
        }
        return after
      },
      { replace },
    )
  return (
    <div className="flex h-full min-h-0 flex-col">
      <header className="border-b border-line bg-surface px-3 py-3 sm:px-4">
        <h1 className="mb-2 text-lg font-semibold">Compare two runs</h1>
        <div className="flex flex-col gap-2 sm:flex-row sm:items-start sm:gap-3">
          <RunPicker label="Left" chosen={leftId} recent={recent.data ?? []} onChoose={(id) => change({ left: id })} />
          <Button
            className="self-center sm:mt-6 sm:self-start"
            disabled={leftId === null && rightId === null}
            onClick={() => change({ left: rightId, right: leftId }, true)}
          >
            <ArrowLeftRight size={15} aria-hidden /> Swap
          </Button>
          <RunPicker
            label="Right"
            chosen={rightId}
            recent={recent.data ?? []}
            onChoose={(id) => change({ right: id })}
          />
        </div>
      </header>
      {leftId === null || rightId === null ? (
        <Empty title="Choose two runs">Compare their outcome, cost, files and steps side by side.</Empty>
      ) : left.side === null || right.side === null ? (
        <div className="grid sm:grid-cols-2">
          <SideLoading name="Left" sandboxId={leftId} log={left.log} />
          <SideLoading name="Right" sandboxId={rightId} log={right.log} />
        </div>
      ) : (
        <Compared left={left.side} right={right.side} view={view} onChange={change} />
      )}
    </div>
  )
}

function Compared({
  left,
  right,
  view,
  onChange,
}: {
  left: Side
  right: Side
  view: string
  onChange: (values: Record<string, string | null>, replace?: boolean) => void
}) {
  return (
    <Tabs.Root
      value={view}
      onValueChange={(next) => onChange({ view: next }, true)}
      className="flex min-h-0 flex-1 flex-col"
    >
      <div className="flex flex-wrap items-center gap-x-4 border-b border-line bg-surface px-3 sm:px-4">
        <Tabs.List aria-label="Comparison views" className="flex">
          {views.map(({ value, name }) => (
            <Tabs.Trigger
              key={value}
              value={value}
              className="min-h-10 border-b-2 border-transparent px-3 text-sm text-ink-soft hover:text-ink data-[state=active]:border-accent data-[state=active]:font-medium data-[state=active]:text-ink"
            >
              {name}
            </Tabs.Trigger>
          ))}
        </Tabs.List>
        <p className="ml-auto flex gap-4 py-2 text-sm">
          <Link className="text-accent hover:underline" to={paths.sandbox(left.sandboxId)}>
            Open left
          </Link>
          <Link className="text-accent hover:underline" to={paths.sandbox(right.sandboxId)}>
            Open right
          </Link>
        </p>
      </div>
      <Tabs.Content value="summary" className="min-h-0 flex-1 overflow-auto outline-none">
        <Summary left={left} right={right} onFile={(file) => onChange({ view: 'files', file })} />
      </Tabs.Content>
      <Tabs.Content value="files" className="min-h-0 flex-1 outline-none">
        <ComparedFiles left={left} right={right} />
      </Tabs.Content>
      <Tabs.Content value="steps" className="min-h-0 flex-1 outline-none">
        <AlignedSteps left={left} right={right} />
      </Tabs.Content>
    </Tabs.Root>
  )
}

function SideLoading({ name, sandboxId, log }: { name: string; sandboxId: string; log: FullLog }) {
  if (log.state === 'failed') {
    return log.error instanceof ApiError && log.error.status === 404 ? (
      <Empty title={`${name}: run not found`}>
        <span className="font-mono break-all">{sandboxId}</span>
      </Empty>
    ) : (
      <Failed error={log.error} onRetry={log.retry} />
    )
  }
  const { loaded, of } = log.progress
  return (
    <p role="status" className="flex items-center justify-center gap-2 px-6 py-16 text-ink-soft">
      {log.state === 'loading' && <Spinner />} {name}: {log.state === 'ready' ? 'loaded' : 'loading events…'}{' '}
      {of !== null && `${count(loaded)} of ${count(of)} events`}
    </p>
  )
}
