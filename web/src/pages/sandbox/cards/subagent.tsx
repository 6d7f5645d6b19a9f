import { Bot, Sparkles } from 'lucide-react'
import type { SkillRow, SubagentRow } from '../../../timeline/rows'
import { Code, MoreButton } from '../../../ui/code'
import { useRetainedState } from '../../../ui/retained-state'
import { Markdown } from '../../../ui/markdown'
import { count, dollars, plural } from '../../../util/numbers'
import { Card, ProgressMark, Title } from './frame'
import { outputText, pretty, fullOutput, fullText } from './output'
import { useFullBody } from './full-body'
import { RowCard } from './row-card'

/** Steps shown before expanding; a sub-agent may have thousands. */
const MAX_STEPS = 40

/** A sub-agent with its prompt, steps and result. */
export function SubagentCard({ row, sandboxId }: { row: SubagentRow; sandboxId: string }) {
  const { body, more } = useFullBody(sandboxId, row.rest, 'result')
  const result = body === null ? row.result : fullText(body)
  const facts = [
    row.tokens === null ? null : `${count(row.tokens)} tokens`,
    row.costUsd === null ? null : dollars(row.costUsd),
  ].filter((fact) => fact !== null)
  return (
    <Card
      icon={<Bot size={15} aria-hidden />}
      tone={row.status === 'failed' ? 'bad' : row.status === 'interrupted' ? 'warn' : 'plain'}
      folds={row.status === 'failed' ? null : 'open'}
      title={
        <>
          <span className="shrink-0 font-medium">{row.agent === '' ? 'Sub-agent' : row.agent}</span>
          <span className="min-w-0 truncate text-ink-soft">{row.description}</span>
        </>
      }
      aside={
        <>
          {row.background && <span className="shrink-0 text-xs text-ink-soft">background</span>}
          {facts.length > 0 && (
            <span className="hidden shrink-0 text-xs text-ink-faint sm:inline">{facts.join(', ')}</span>
          )}
          <ProgressMark status={row.status} since={row.at} durationMs={row.durationMs} />
        </>
      }
    >
      {row.prompt !== '' && <Code text={row.prompt} what="prompt" lines={3} />}
      <Steps row={row} sandboxId={sandboxId} />
      {result !== null && result !== '' && (
        <div className="min-w-0">
          <p className="text-xs font-medium text-ink-soft">Result</p>
          <Markdown text={result} />
        </div>
      )}
      {more}
    </Card>
  )
}

function Steps({ row, sandboxId }: { row: SubagentRow; sandboxId: string }) {
  const [open, setOpen] = useRetainedState('steps', false)
  const [all, setAll] = useRetainedState('all steps', false)
  if (row.steps.length === 0) return row.status === 'running' ? <p className="text-ink-soft">Starting…</p> : null
  const hidden = all ? 0 : Math.max(0, row.steps.length - MAX_STEPS)
  return (
    <div className="min-w-0">
      <MoreButton onClick={() => setOpen(!open)} expanded={open}>
        {open ? 'Hide steps' : `Show ${plural(row.steps.length, 'step')}`}
      </MoreButton>
      {open && (
        <>
          {hidden > 0 && <MoreButton onClick={() => setAll(true)}>Show {plural(hidden, 'earlier step')}</MoreButton>}
          <ol className="mt-1.5 flex flex-col gap-1.5 border-l-2 border-line pl-2.5 sm:pl-3">
            {row.steps.slice(hidden).map((step) => (
              <li key={step.key} className="min-w-0">
                <RowCard row={step} sandboxId={sandboxId} />
              </li>
            ))}
          </ol>
        </>
      )}
    </div>
  )
}

export function SkillCard({ row, sandboxId }: { row: SkillRow; sandboxId: string }) {
  const { body, more } = useFullBody(sandboxId, row.rest, 'output')
  const output = outputText(body === null ? row.output : fullOutput(body))
  const isError = row.status === 'failed'
  return (
    <Card
      icon={<Sparkles size={15} aria-hidden />}
      tone={isError ? 'bad' : row.status === 'interrupted' ? 'warn' : 'plain'}
      folds={isError ? null : 'closed'}
      title={<Title name="Skill" about={row.skill} />}
      aside={<ProgressMark status={row.status} since={row.at} durationMs={null} />}
    >
      {Object.keys(row.input).length > 0 && <Code text={pretty(row.input)} what="input" lines={12} />}
      {(output !== '' || more !== null) && (
        <Code text={output} what="output" lines={25} tone={isError ? 'bad' : 'plain'} more={more} />
      )}
    </Card>
  )
}
