import { useVirtualizer } from '@tanstack/react-virtual'
import { ArrowLeft, Columns2, FolderClosed, Search } from 'lucide-react'
import { type KeyboardEvent, useId, useMemo, useRef, useState } from 'react'
import { useSearchParams } from 'react-router'
import type { FileState } from '../../../timeline/run'
import { Button } from '../../../ui/button'
import { CopyButton } from '../../../ui/copy'
import { Lines } from '../../../ui/diff'
import { RetainState } from '../../../ui/retained-state'
import { Empty } from '../../../ui/states'
import { classes } from '../../../util/classes'
import { plural } from '../../../util/numbers'
import { FileChanges } from './file-changes'
import { type FileListItem, fileList, neighbour } from './file-list'
import { FileStatus, changeLabels } from './file-status'
import { type Log, CompleteRunProgress, useCompleteRun } from './complete-run'

/** All changed files with their changes. On small screens list and file are separate views. */
export default function FilesTab({ sandboxId, log }: { sandboxId: string; log: Log }) {
  useCompleteRun(log)
  const [parameters, setParameters] = useSearchParams()
  const [search, setSearch] = useState('')
  const files = log.run.files
  const items = useMemo(() => fileList(files, search), [files, search])
  const requested = parameters.get('file')
  const first = items.find((item) => item.kind === 'file')?.file ?? null
  const selected = files.find((file) => file.path === requested) ?? null
  const shown = selected ?? (requested === null ? first : null)
  const select = (path: string | null) =>
    setParameters(
      (before) => {
        const after = new URLSearchParams(before)
        if (path === null) after.delete('file')
        else after.set('file', path)
        return after
      },
      { replace: true },
    )

  return (
    <div className="flex h-full min-h-0 flex-col">
      <CompleteRunProgress log={log} />
      {files.length === 0 ? (
        <Empty title={log.complete ? 'No files changed' : 'No files changed yet'}>
          Files that the agent creates, edits, renames or deletes are shown here.
        </Empty>
      ) : (
        <div className="flex min-h-0 flex-1">
          <div
            className={classes(
              'min-h-0 w-full flex-col border-line md:flex md:w-80 md:shrink-0 md:border-r',
              requested === null ? 'flex' : 'hidden',
            )}
          >
            <FileSearch search={search} onSearch={setSearch} files={files} />
            <FileListBox items={items} selected={shown?.path ?? null} onSelect={select} />
          </div>
          <div
            className={classes(
              'min-h-0 min-w-0 flex-1 overflow-auto md:block',
              requested === null ? 'hidden' : 'block',
            )}
          >
            {shown === null ? (
              <Empty title={log.complete ? 'File not changed in this run' : 'File not loaded yet'}>
                <span className="font-mono break-all">{requested}</span>
                <Button className="mt-4" onClick={() => select(null)}>
                  Show all files
                </Button>
              </Empty>
            ) : (
              <RetainState key={shown.path}>
                <File sandboxId={sandboxId} file={shown} onBack={() => select(null)} />
              </RetainState>
            )}
          </div>
        </div>
      )}
    </div>
  )
}

function FileSearch({
  search,
  onSearch,
  files,
}: {
  search: string
  onSearch: (search: string) => void
  files: readonly FileState[]
}) {
  const added = files.reduce((sum, file) => sum + file.added, 0)
  const removed = files.reduce((sum, file) => sum + file.removed, 0)
  return (
    <div className="flex flex-col gap-2 border-b border-line p-3">
      <p className="flex items-center justify-between text-sm">
        <span className="font-medium">{plural(files.length, 'changed file')}</span>
        <Lines added={added} removed={removed} />
      </p>
      <label className="flex items-center gap-2 rounded-md border border-line-strong/60 bg-page px-2">
        <Search size={14} aria-hidden className="text-ink-faint" />
        <span className="sr-only">Search files</span>
        <input
          type="search"
          value={search}
          placeholder="Search files"
          onChange={(event) => onSearch(event.target.value)}
          className="min-h-9 w-full bg-transparent text-sm outline-none placeholder:text-ink-faint"
        />
      </label>
    </div>
  )
}

const LINE_HEIGHT = 34

function FileListBox({
  items,
  selected,
  onSelect,
}: {
  items: readonly FileListItem[]
  selected: string | null
  onSelect: (path: string) => void
}) {
  const scroller = useRef<HTMLDivElement>(null)
  const base = useId()
  const lines = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 12,
  })
  const indexOf = (path: string | null) => items.findIndex((item) => item.kind === 'file' && item.file.path === path)
  const move = (by: number) => {
    const next = neighbour(items, selected, by)
    if (next === null) return
    onSelect(next)
    lines.scrollToIndex(indexOf(next))
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -items.length, End: items.length }[
      event.key
    ]
    if (by === undefined) return
    event.preventDefault()
    move(by)
  }
  if (items.length === 0) return <Empty title="No matching files" />
  const active = indexOf(selected)
  return (
    <div ref={scroller} className="min-h-0 flex-1 overflow-auto">
      <div
        role="listbox"
        aria-label="Changed files"
        aria-activedescendant={active >= 0 ? `${base}-${active}` : undefined}
        tabIndex={0}
        onKeyDown={onKeyDown}
        className="relative"
        style={{ height: lines.getTotalSize() }}
      >
        {lines.getVirtualItems().map((line) => {
          const item = items[line.index]
          if (item === undefined) return null
          const style = { transform: `translateY(${line.start}px)`, height: LINE_HEIGHT }
          if (item.kind === 'folder') {
            return (
              <div
                key={`folder ${item.folder}`}
                role="presentation"
                style={style}
                className="absolute inset-x-0 top-0 flex items-center gap-1.5 px-3 pt-1.5 font-mono text-xs text-ink-soft"
              >
                <FolderClosed size={13} aria-hidden className="shrink-0" />
                <span className="truncate" title={item.folder}>
                  {item.folder}
                </span>
              </div>
            )
          }
          const { file } = item
          return (
            <div
              key={file.path}
              id={`${base}-${line.index}`}
              role="option"
              aria-selected={file.path === selected}
              onClick={() => onSelect(file.path)}
              style={style}
              className={classes(
                'absolute inset-x-0 top-0 flex cursor-pointer items-center gap-2 px-3 text-sm',
                file.path.includes('/') && 'pl-6',
                file.path === selected ? 'bg-accent-soft text-ink' : 'hover:bg-sunken',
              )}
            >
              <FileStatus change={file.status} />
              <span
                className={classes(
                  'min-w-0 flex-1 truncate font-mono text-[0.8125rem]',
                  file.status === 'deleted' && 'line-through',
                )}
                title={file.path}
              >
                {item.name}
              </span>
              <Lines added={file.added} removed={file.removed} />
            </div>
          )
        })}
      </div>
    </div>
  )
}

function File({ sandboxId, file, onBack }: { sandboxId: string; file: FileState; onBack: () => void }) {
  const [split, setSplit] = useState(false)
  const renamedFrom = file.changes.findLast((change) => change.previousPath !== null)?.previousPath ?? null
  return (
    <article aria-label={file.path} className="flex flex-col gap-4 p-3 sm:p-4">
      <header className="flex flex-wrap items-center gap-2">
        <Button variant="quiet" className="md:hidden" onClick={onBack}>
          <ArrowLeft size={15} aria-hidden /> All files
        </Button>
        <h2 className="min-w-0 font-mono text-sm font-semibold break-all">{file.path}</h2>
        <CopyButton text={file.path} what="path" />
        <span className="text-sm text-ink-soft">
          {changeLabels[file.status]}
          {renamedFrom !== null && ` (was ${renamedFrom})`}, {plural(file.changes.length, 'change')}
        </span>
        <Lines added={file.added} removed={file.removed} />
        <Button
          variant="quiet"
          aria-pressed={split}
          className="ml-auto hidden lg:inline-flex"
          onClick={() => setSplit(!split)}
        >
          <Columns2 size={15} aria-hidden /> {split ? 'Unified' : 'Side by side'}
        </Button>
      </header>
      <FileChanges sandboxId={sandboxId} changes={file.changes} split={split} />
    </article>
  )
}
