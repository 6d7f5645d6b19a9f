import { ChevronDown } from 'lucide-react'
import { type KeyboardEvent, useId, useState } from 'react'
import type { SandboxOut } from '../../api/contract'
import { StatusBadge, ofSandbox } from '../../ui/status'
import { classes } from '../../util/classes'
import { relative, useNow } from '../../util/time'

const MAX_SUGGESTIONS = 50

/** Selects a run: a recent one by title or ID, or any other by its ID. */
export function RunPicker({
  label,
  chosen,
  recent,
  onChoose,
}: {
  label: string
  chosen: string | null
  recent: readonly SandboxOut[]
  onChoose: (id: string) => void
}) {
  const base = useId()
  const now = useNow()
  // `null` while the user is not typing; then the field shows the selected run.
  const [typed, setTyped] = useState<string | null>(null)
  const [active, setActive] = useState(-1)
  const open = typed !== null
  const matches = open ? matching(recent, typed) : []
  const current = recent.find((sandbox) => sandbox.sandbox_id === chosen)
  const close = () => {
    setTyped(null)
    setActive(-1)
  }
  const choose = (id: string) => {
    close()
    if (id !== '') onChoose(id)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault()
      if (!open) setTyped('')
      else setActive(Math.min(Math.max(active + (event.key === 'ArrowDown' ? 1 : -1), 0), matches.length - 1))
    } else if (event.key === 'Enter' && open) {
      event.preventDefault()
      choose(matches[active]?.sandbox_id ?? typed.trim())
    } else if (event.key === 'Escape') close()
  }
  return (
    <div className="relative min-w-0 flex-1">
      <label htmlFor={`${base}-field`} className="text-sm font-medium">
        {label}
      </label>
      <div className="mt-1 flex items-center rounded-md border border-line-strong/60 bg-page">
        <input
          id={`${base}-field`}
          role="combobox"
          aria-expanded={open}
          aria-controls={`${base}-list`}
          aria-autocomplete="list"
          aria-activedescendant={active >= 0 ? `${base}-${active}` : undefined}
          autoComplete="off"
          spellCheck={false}
          placeholder="Title or sandbox ID"
          value={typed ?? current?.name ?? chosen ?? ''}
          onFocus={(event) => event.target.select()}
          onClick={() => !open && setTyped('')}
          onChange={(event) => {
            setTyped(event.target.value)
            setActive(-1)
          }}
          onBlur={close}
          onKeyDown={onKeyDown}
          className="min-h-9 w-full min-w-0 bg-transparent px-3 text-sm outline-none placeholder:text-ink-faint"
        />
        <ChevronDown size={15} aria-hidden className="mr-2 shrink-0 text-ink-faint" />
      </div>
      {chosen !== null && (
        <p className="mt-1 truncate font-mono text-xs text-ink-soft" title={chosen}>
          {chosen}
        </p>
      )}
      <ul
        id={`${base}-list`}
        role="listbox"
        aria-label={`${label}: recent runs`}
        hidden={!open}
        className="absolute inset-x-0 top-full z-30 mt-1 max-h-80 overflow-auto rounded-md border border-line bg-surface p-1 shadow-lg"
      >
        {matches.map((sandbox, index) => (
          <li
            key={sandbox.sandbox_id}
            id={`${base}-${index}`}
            role="option"
            aria-selected={sandbox.sandbox_id === chosen}
            // Keep the focus in the field until the click is complete.
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => choose(sandbox.sandbox_id)}
            className={classes(
              'cursor-pointer rounded px-2 py-1.5 text-sm',
              index === active ? 'bg-accent-soft' : 'hover:bg-sunken',
            )}
          >
            <span className="flex items-center gap-2">
              <span className="min-w-0 flex-1 truncate">{sandbox.name ?? 'Untitled'}</span>
              <StatusBadge status={ofSandbox(sandbox)} />
            </span>
            <span className="flex gap-2 text-xs text-ink-soft">
              <span className="min-w-0 truncate font-mono">{sandbox.sandbox_id}</span>
              <span className="ml-auto whitespace-nowrap">{relative(sandbox.created_at, now)}</span>
            </span>
          </li>
        ))}
        {open && matches.length === 0 && (
          <li role="presentation" className="px-2 py-2 text-sm text-ink-soft">
            {typed.trim() === '' ? 'No runs yet.' : 'No recent run matches. Press Enter to use it as an ID.'}
          </li>
        )}
      </ul>
    </div>
  )
}

function matching(recent: readonly SandboxOut[], typed: string): SandboxOut[] {
  const wanted = typed.trim().toLowerCase()
  return recent
    .filter((each) => `${each.name ?? ''}\n${each.sandbox_id}`.toLowerCase().includes(wanted))
    .slice(0, MAX_SUGGESTIONS)
}
