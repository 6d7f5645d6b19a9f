import { FilePen, FilePlus } from 'lucide-react'
import { firstText, isObject, list, text } from '../../../timeline/read'
import type { JsonObject } from '../../../api/contract'
import type { ToolRow } from '../../../timeline/rows'
import { Code } from '../../../ui/code'
import { Diff } from '../../../ui/diff'
import { KeptPlace } from '../../../ui/kept'
import { DIFF_LINES, FileChangeCard } from './file-change'
import { Card, Title } from './frame'
import { outputText, wholeOutput, wordsAsDiff } from './output'
import { useRest } from './rest'
import { Permission, ToolMarks, toolTone } from './tool-marks'

/** A tool that changes files: the files, once they are known, and until then what it means to write. */
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
  const { body, more } = useRest(sandboxId, row.rest, 'answer')
  const path = firstText(row.input, 'file_path', 'path', 'notebook_path') ?? row.title ?? 'a file'
  const content = firstText(row.input, 'content', 'new_source')
  const isWrong = row.status === 'failed' || row.status === 'refused'
  const answer = outputText(body === null ? row.output : wholeOutput(body))
  return (
    <Card
      icon={row.tool === 'Write' ? <FilePlus size={15} aria-hidden /> : <FilePen size={15} aria-hidden />}
      tone={toolTone(row)}
      folds={isWrong ? null : 'open'}
      title={<Title name={row.tool} about={<span title={path}>{path}</span>} />}
      aside={<ToolMarks row={row} />}
    >
      <Permission row={row} />
      {isWrong && (answer !== '' || more !== null) && <Code text={answer} what="answer" lines={40} tone="bad" more={more} />}
      {content === null ? (
        replacements(row.input).map((words, index) => (
          <KeptPlace key={index} name={`edit ${index}`}>
            <Diff diff={words} lines={DIFF_LINES} numbers={false} />
          </KeptPlace>
        ))
      ) : (
        <Code text={content} what="contents" lines={DIFF_LINES} />
      )}
    </Card>
  )
}

/** What `Edit` and `MultiEdit` put in the place of what. */
function replacements(input: JsonObject): string[] {
  const edits = list(input, 'edits').filter(isObject)
  return (edits.length > 0 ? edits : [input]).flatMap((edit) => {
    const [before, after] = [text(edit, 'old_string'), text(edit, 'new_string')]
    return before === null && after === null ? [] : [wordsAsDiff(before ?? '', after ?? '')]
  })
}
