import { useMemo } from 'react'
import { classes } from '../../util/classes'
import { useNow } from '../../util/time'
import { type Fact, facts, toolFacts } from './compare'
import { FileSummary } from './files'
import type { Side } from './use-side'

export function Summary({ left, right, onFile }: { left: Side; right: Side; onFile: (path: string | null) => void }) {
  const now = useNow()
  const compared = useMemo(() => facts(left.run, right.run, now), [left, right, now])
  const tools = useMemo(() => toolFacts(left.rows, right.rows), [left, right])
  return (
    <div className="mx-auto grid max-w-6xl items-start gap-4 p-3 sm:p-4 xl:grid-cols-2">
      <FactTable title="Overview" facts={compared} />
      <div className="grid min-w-0 gap-4">
        <FactTable title="Tool calls" facts={tools} empty="No tool calls in either run." />
        <FileSummary left={left} right={right} onChoose={onFile} />
      </div>
    </div>
  )
}

function FactTable({ title, facts, empty }: { title: string; facts: readonly Fact[]; empty?: string }) {
  return (
    <section aria-label={title} className="min-w-0 overflow-x-auto rounded-xl border border-line bg-surface">
      <table className="w-full text-xs tabular-nums sm:text-sm">
        <caption className="px-4 pt-3 pb-2 text-left text-sm font-semibold">{title}</caption>
        <thead className="text-left text-xs text-ink-soft">
          <tr className="border-b border-line">
            <th scope="col" className="px-3 py-1.5 font-medium sm:px-4">
              <span className="sr-only">Metric</span>
            </th>
            <th scope="col" className="px-1 py-1.5 font-medium sm:px-2">
              Left
            </th>
            <th scope="col" className="px-1 py-1.5 font-medium sm:px-2">
              Right
            </th>
            <th scope="col" className="px-2 py-1.5 font-medium sm:px-4">
              Difference
            </th>
          </tr>
        </thead>
        <tbody>
          {facts.map((fact) => (
            <tr key={fact.name} className="border-b border-line/60 align-top last:border-0">
              <th scope="row" className="px-3 py-1.5 text-left font-normal sm:px-4 break-words text-ink-soft">
                {fact.name}
              </th>
              <td className="px-1 py-1.5 sm:px-2">{fact.left}</td>
              <td className="px-1 py-1.5 sm:px-2">{fact.right}</td>
              <td className={classes('px-2 py-1.5 sm:px-4', fact.same ? 'text-ink-faint' : 'font-medium text-accent')}>
                {fact.difference}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {facts.length === 0 && empty !== undefined && <p className="px-4 pb-4 text-sm text-ink-soft">{empty}</p>}
    </section>
  )
}
