import { SquareTerminal } from 'lucide-react'
import { text } from '../../../timeline/read'
import type { ToolRow } from '../../../timeline/rows'
import { Code } from '../../../ui/code'
import { CopyButton } from '../../../ui/copy'
import { ChangedFiles } from './file-change'
import { Card, Title } from './frame'
import { exitCode, outputText, fullOutput, withoutExitCode } from './output'
import { useFullBody } from './full-body'
import { Permission, ToolMarks, toolTone } from './tool-marks'

const OUTPUT_LINES = 15

/** A shell command with its output, exit code and changed files. */
export function CommandCard({ row, sandboxId }: { row: ToolRow; sandboxId: string }) {
  const { body, more } = useFullBody(sandboxId, row.rest, 'output')
  const result = body === null ? row.output : fullOutput(body)
  const output = withoutExitCode(outputText(result))
  const code = exitCode(result)
  const command = text(row.input, 'command') ?? row.title ?? ''
  const description = text(row.input, 'description')
  return (
    <Card
      icon={<SquareTerminal size={15} aria-hidden />}
      tone={toolTone(row)}
      title={<Title name={description ?? 'Command'} />}
      aside={
        <>
          {code !== null && code !== 0 && <span className="shrink-0 text-xs text-bad">Exit code {code}</span>}
          <ToolMarks row={row} />
          <CopyButton text={command} what="command" />
        </>
      }
    >
      <pre className="font-mono text-[0.8125rem] leading-5 break-words whitespace-pre-wrap">
        <span aria-hidden className="text-accent select-none">
          ${' '}
        </span>
        {command}
      </pre>
      <Permission row={row} />
      {(output !== '' || more !== null) && <Code text={output} what="output" lines={OUTPUT_LINES} ansi more={more} />}
      {row.status === 'done' && output === '' && more === null && <p className="text-xs text-ink-faint">No output</p>}
      <ChangedFiles changes={row.files} sandboxId={sandboxId} isNested />
    </Card>
  )
}
