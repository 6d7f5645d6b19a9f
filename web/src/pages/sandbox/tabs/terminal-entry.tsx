import { CircleSlash, CircleX } from 'lucide-react'
import { memo } from 'react'
import { Link } from 'react-router'
import type { JsonObject } from '../../../api/contract'
import type { Command } from '../../../timeline/run'
import { plainText } from '../../../ui/ansi'
import { Code, MoreButton } from '../../../ui/code'
import { CopyButton } from '../../../ui/copy'
import { useRetainedState } from '../../../ui/retained-state'
import { Spinner } from '../../../ui/spinner'
import { count } from '../../../util/numbers'
import { paths } from '../../../util/paths'
import { dateAndTime, duration, timeOfDay } from '../../../util/time'
import { useFullBody } from '../cards/full-body'
import { fullOutput } from '../cards/output'
import { type FoundLines, type ShownCommand, outcomeOf } from './command-list'

/** A command with its output and outcome. */
export const TerminalEntry = memo(function TerminalEntry({
  sandboxId,
  shown,
}: {
  sandboxId: string
  shown: ShownCommand
}) {
  const { command, found } = shown
  const [showAll, setShowAll] = useRetainedState('complete output', false)
  return (
    <div className="flex flex-col gap-1 px-3 py-2 sm:px-4">
      <div className="flex items-start gap-2">
        <span aria-hidden className="pt-0.5 font-mono text-sm text-accent select-none">
          $
        </span>
        <div className="min-w-0 flex-1">
          <pre className="pt-0.5 font-mono text-[0.8125rem] leading-5 font-semibold break-words whitespace-pre-wrap">
            {command.command}
          </pre>
          {command.description !== null && <p className="text-xs text-ink-soft">{command.description}</p>}
        </div>
        <CopyButton text={command.command} what="command" />
        <Link
          to={paths.moment(sandboxId, command.seq)}
          title={`${dateAndTime(command.at)}. Go to event.`}
          className="pt-1 text-xs text-ink-soft tabular-nums hover:text-ink hover:underline"
        >
          {timeOfDay(command.at)}
        </Link>
      </div>
      {found !== null && !showAll ? (
        <Found
          found={found}
          onShowAll={command.output === null || command.output === '' ? null : () => setShowAll(true)}
        />
      ) : (
        <Output sandboxId={sandboxId} command={command} />
      )}
      <Outcome command={command} />
    </div>
  )
})

function Outcome({ command }: { command: Command }) {
  const { kind, label } = outcomeOf(command)
  const took = command.durationMs === null ? '' : `, ${duration(command.durationMs)}`
  if (kind === 'running') {
    return (
      <p className="flex items-center gap-1.5 text-xs text-info">
        <Spinner size={12} /> {label}…
      </p>
    )
  }
  if (kind === 'done') return <p className="text-xs text-ink-faint">{`${label}${took}`}</p>
  return (
    <p className={`flex items-center gap-1.5 text-xs font-medium ${kind === 'failed' ? 'text-bad' : 'text-warn'}`}>
      {kind === 'failed' ? <CircleX size={13} aria-hidden /> : <CircleSlash size={13} aria-hidden />}
      {`${label}${took}`}
    </p>
  )
}

function Output({ sandboxId, command }: { sandboxId: string; command: Command }) {
  const { body, more } = useFullBody(sandboxId, command.rest, 'output')
  const output = (body === null ? null : outputOf(body)) ?? command.output
  if (output === null) return null
  if (output === '' && more === null) return <p className="text-xs text-ink-faint">No output</p>
  return <Code text={output} what="output" ansi lines={40} more={more} />
}

const outputOf = (body: JsonObject) => {
  const output = fullOutput(body)
  return typeof output === 'string' && /\S/.test(output) ? output : null
}

function Found({ found, onShowAll }: { found: FoundLines; onShowAll: (() => void) | null }) {
  return (
    <div>
      {found.lines.length > 0 && (
        <ul
          aria-label="Matching lines"
          className="overflow-x-auto rounded-md bg-surface px-3 py-1.5 font-mono text-[0.8125rem] leading-5"
        >
          {found.lines.map((line) => (
            <li key={line.number} className="flex gap-3">
              <span className="w-10 shrink-0 text-right text-ink-faint select-none">{line.number}</span>
              <span className="break-words whitespace-pre-wrap">{plainText(line.text)}</span>
            </li>
          ))}
        </ul>
      )}
      {found.more > 0 && <p className="mt-1 text-xs text-ink-soft">{count(found.more)} more matching lines.</p>}
      {onShowAll !== null && <MoreButton onClick={onShowAll}>Show full output</MoreButton>}
    </div>
  )
}
