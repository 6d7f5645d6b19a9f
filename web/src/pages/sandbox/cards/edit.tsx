import { FilePen, FilePlus } from 'lucide-react'
import { firstText, isObject, list, text } from '../../../timeline/read'
import type { JsonObject } from '../../../api/contract'
import type { ToolRow } from '../../../timeline/rows'
import { Code } from '../../../ui/code'
import { Diff } from '../../../ui/diff'
import { RetainedScope } from '../../../ui/retained-state'
import { DIFF_LINES, FileChangeCard } from './file-change'
import { Card, Title } from './frame'
import { outputText, fullOutput, replacementDiff } from './output'
import { useFullBody } from './full-body'
import { Permission, ToolMarks, toolTone } from './tool-marks'

/** A tool that changes files: shows the changes once they are known, and until then the intended edit. */
export function EditCard({ row, sandboxId }: { row: ToolRow; sandboxId: string }) {
  if (row.status === 'done' && row.files.length > 0) {
    return (
      <div className="flex min-w-0 flex-col gap-1.5">
        {row.files.map((change) => (
          <FileChangeCard key={change.seq} change={change} sandboxId={sandboxId} aside={<ToolMarks row={row} />} />
        ))}
      </div>
    )
  }
  return <IntendedEdit row={row} sandboxId={sandboxId} />
}

function IntendedEdit({ row, sandboxId }: { row: ToolRow; sandboxId: string }) {
  const { body, more } = useFullBody(sandboxId, row.rest, 'response')
  const path = firstText(row.input, 'file_path', 'path', 'notebook_path') ?? row.title ?? 'File'
  const content = firstText(row.input, 'content', 'new_source')
  const isError = row.status === 'failed' || row.status === 'denied'
  const response = outputText(body === null ? row.output : fullOutput(body))
  return (
    <Card
      icon={row.tool === 'Write' ? <FilePlus size={15} aria-hidden /> : <FilePen size={15} aria-hidden />}
      tone={toolTone(row)}
      folds={isError ? null : 'open'}
      title={<Title name={row.tool} about={<span title={path}>{path}</span>} />}
      aside={<ToolMarks row={row} />}
    >
      <Permission row={row} />
      {isError && (response !== '' || more !== null) && (
        <Code text={response} what="response" lines={40} tone="bad" more={more} />
      )}
      {content === null ? (
        replacements(row.input).map((diff, index) => (
          <RetainedScope key={index} name={`edit ${index}`}>
            <Diff diff={diff} lines={DIFF_LINES} numbers={false} />
          </RetainedScope>
        ))
      ) : (
        <Code text={content} what="contents" lines={DIFF_LINES} />
      )}
    </Card>
  )
}

/** The replacements of `Edit` and `MultiEdit` as diffs. */
function replacements(input: JsonObject): string[] {
  const edits = list(input, 'edits').filter(isObject)
  return (edits.length > 0 ? edits : [input]).flatMap((edit) => {
    const [before, after] = [text(edit, 'old_string'), text(edit, 'new_string')]
    return before === null && after === null ? [] : [replacementDiff(before ?? '', after ?? '')]
  })
}
