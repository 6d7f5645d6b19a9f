import { FileText, FolderSearch, Globe, MessageCircleQuestion, Plug, Search, Wrench } from 'lucide-react'
import type { ReactNode } from 'react'
import { firstText, number, text } from '../../../timeline/read'
import type { ToolRow } from '../../../timeline/rows'
import { countLines } from '../../../ui/clip'
import { Code } from '../../../ui/code'
import { plural } from '../../../util/numbers'
import { CommandCard } from './command'
import { EditCard } from './edit'
import { ChangedFiles } from './file-change'
import { Card, Title } from './frame'
import { mcpName, outputText, pretty, fullOutput } from './output'
import { Questions } from './questions'
import { useFullBody } from './full-body'
import { Permission, ToolMarks, toolTone } from './tool-marks'

export function ToolCard({ row, sandboxId }: { row: ToolRow; sandboxId: string }) {
  switch (row.tool) {
    case 'Bash':
      return <CommandCard row={row} sandboxId={sandboxId} />
    case 'Write':
    case 'Edit':
    case 'MultiEdit':
    case 'NotebookEdit':
    case 'Delete':
    case 'Move':
      return <EditCard row={row} sandboxId={sandboxId} />
    case 'Read':
      return (
        <PlainTool
          row={row}
          sandboxId={sandboxId}
          icon={<FileText size={15} aria-hidden />}
          name="Read"
          about={readAbout(row)}
        />
      )
    case 'Glob':
      return (
        <PlainTool
          row={row}
          sandboxId={sandboxId}
          icon={<FolderSearch size={15} aria-hidden />}
          name="Find files"
          about={searchAbout(row)}
        />
      )
    case 'Grep':
    case 'Search':
      return (
        <PlainTool
          row={row}
          sandboxId={sandboxId}
          icon={<Search size={15} aria-hidden />}
          name="Search"
          about={searchAbout(row)}
        />
      )
    case 'WebFetch':
    case 'Fetch':
      return (
        <PlainTool
          row={row}
          sandboxId={sandboxId}
          icon={<Globe size={15} aria-hidden />}
          name="Fetch"
          about={text(row.input, 'url') ?? row.title}
          note={text(row.input, 'prompt')}
        />
      )
    case 'WebSearch':
      return (
        <PlainTool
          row={row}
          sandboxId={sandboxId}
          icon={<Globe size={15} aria-hidden />}
          name="Web search"
          about={text(row.input, 'query')}
        />
      )
    case 'AskUserQuestion':
      return (
        <PlainTool
          row={row}
          sandboxId={sandboxId}
          icon={<MessageCircleQuestion size={15} aria-hidden />}
          name="Question"
          about={null}
          folds="open"
        >
          <Questions input={row.input} />
        </PlainTool>
      )
    default:
      return <AnyTool row={row} sandboxId={sandboxId} />
  }
}

/** A tool without a card of its own, or of an MCP server: name, input and output. */
function AnyTool({ row, sandboxId }: { row: ToolRow; sandboxId: string }) {
  const mcp = mcpName(row.tool)
  const hasInput = Object.keys(row.input).length > 0
  return (
    <PlainTool
      row={row}
      sandboxId={sandboxId}
      icon={mcp === null ? <Wrench size={15} aria-hidden /> : <Plug size={15} aria-hidden />}
      name={mcp?.tool ?? row.tool}
      about={
        mcp === null
          ? (row.title ?? firstText(row.input, 'description', 'query', 'path', 'name'))
          : `from ${mcp.server}`
      }
    >
      {hasInput && <Code text={pretty(row.input)} what="input" lines={12} />}
    </PlainTool>
  )
}

/** A title line that expands to the output. Errors are always expanded. */
function PlainTool({
  row,
  sandboxId,
  icon,
  name,
  about,
  note = null,
  folds = 'closed',
  children,
}: {
  row: ToolRow
  sandboxId: string
  icon: ReactNode
  name: string
  about: string | null
  note?: string | null
  folds?: 'open' | 'closed'
  children?: ReactNode
}) {
  const { body, more } = useFullBody(sandboxId, row.rest, 'output')
  const output = outputText(body === null ? row.output : fullOutput(body))
  const isError = row.status === 'failed' || row.status === 'denied'
  const card = (
    <Card
      icon={icon}
      tone={toolTone(row)}
      folds={isError ? null : folds}
      title={<Title name={name} {...(about === null ? {} : { about: <span title={about}>{about}</span> })} />}
      aside={
        <>
          {row.status === 'done' && output !== '' && folds === 'closed' && (
            <span className="shrink-0 text-xs text-ink-faint">{plural(countLines(output), 'line')}</span>
          )}
          <ToolMarks row={row} />
        </>
      }
    >
      {note !== null && <p className="break-words text-ink-soft">{note}</p>}
      {children}
      <Permission row={row} />
      {(output !== '' || more !== null) && (
        <Code
          text={output}
          what="output"
          lines={isError ? 40 : 25}
          tone={row.status === 'failed' ? 'bad' : 'plain'}
          ansi
          more={more}
        />
      )}
    </Card>
  )
  if (row.files.length === 0) return card
  return (
    <div className="flex min-w-0 flex-col gap-1.5">
      {card}
      <ChangedFiles changes={row.files} sandboxId={sandboxId} />
    </div>
  )
}

function readAbout({ input, title }: ToolRow): string | null {
  const path = firstText(input, 'file_path', 'path', 'notebook_path') ?? title
  const [offset, limit] = [number(input, 'offset'), number(input, 'limit')]
  if (path === null || (offset === null && limit === null)) return path
  const first = offset ?? 1
  return limit === null ? `${path}, from line ${first}` : `${path}, lines ${first} to ${first + limit - 1}`
}

function searchAbout({ input, title }: ToolRow): string | null {
  const pattern = firstText(input, 'pattern', 'query') ?? title
  const where = firstText(input, 'path', 'glob')
  return pattern === null || where === null ? pattern : `${pattern} in ${where}`
}
