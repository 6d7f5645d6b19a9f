import { Check } from 'lucide-react'
import { useEffect, useId, useRef, useState, type KeyboardEvent, type ReactNode } from 'react'
import { classes } from '../util/classes'
import { isComposing } from '../util/keys'
import { Spinner } from './spinner'

export interface ComboboxOption {
  /** What the field contains after the choice. */
  readonly value: string
  readonly icon?: ReactNode
  readonly note?: string | undefined
  /** Whether the choice leads to further options, as a folder does. */
  readonly isStep?: boolean
}

/** The list below the field. */
export type ComboboxState =
  | { readonly kind: 'loading' }
  | { readonly kind: 'failed'; readonly message: string; readonly onRetry: () => void }
  | { readonly kind: 'loaded'; readonly options: readonly ComboboxOption[]; readonly footer?: string | undefined }

/**
 * A text field with a list of suggestions. Any text is allowed: the list only helps. Arrow keys move through it, Enter
 * takes the marked option, Escape closes it.
 */
export function Combobox({
  label,
  hint,
  value,
  onChange,
  state,
  empty,
  isOpen,
  onOpenChange,
  className,
}: {
  label: string
  hint: string
  value: string
  onChange: (value: string) => void
  state: ComboboxState
  /** Shown instead of an empty list. */
  empty: string
  isOpen: boolean
  onOpenChange: (isOpen: boolean) => void
  className?: string
}) {
  const id = useId()
  const [marked, setMarked] = useState<string | null>(null)
  const field = useRef<HTMLInputElement>(null)
  const options = state.kind === 'loaded' ? state.options : []
  const markedIndex = options.findIndex((option) => option.value === marked)
  const optionId = (index: number) => `${id}-option-${index}`

  const choose = (option: ComboboxOption) => {
    onChange(option.value)
    setMarked(null)
    onOpenChange(option.isStep === true)
    field.current?.focus()
  }
  const move = (step: 1 | -1) => {
    onOpenChange(true)
    if (options.length === 0) return
    const from = markedIndex === -1 && step === -1 ? 0 : markedIndex
    setMarked(options[(from + step + options.length) % options.length]?.value ?? null)
  }
  const press = (event: KeyboardEvent) => {
    if (isComposing(event)) return
    const option = options[markedIndex]
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault()
      move(event.key === 'ArrowDown' ? 1 : -1)
    } else if (event.key === 'Enter' && isOpen && option !== undefined) {
      event.preventDefault()
      choose(option)
    } else if (event.key === 'Escape' && isOpen) {
      event.stopPropagation()
      onOpenChange(false)
    }
  }
  return (
    <div
      className={classes('relative', className)}
      onBlur={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget)) onOpenChange(false)
      }}
    >
      <label htmlFor={id} className="mb-1 block text-xs font-medium text-ink-soft">
        {label}
      </label>
      <input
        ref={field}
        id={id}
        role="combobox"
        aria-expanded={isOpen}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={isOpen && markedIndex !== -1 ? optionId(markedIndex) : undefined}
        value={value}
        placeholder={hint}
        autoComplete="off"
        autoCapitalize="off"
        spellCheck={false}
        onFocus={() => onOpenChange(true)}
        onClick={() => onOpenChange(true)}
        onChange={(event) => {
          onChange(event.target.value)
          setMarked(null)
          onOpenChange(true)
        }}
        onKeyDown={press}
        className="min-h-9 w-full rounded-md border border-line-strong/60 bg-surface px-2.5 text-sm placeholder:text-ink-faint"
      />
      {isOpen && (
        <div
          // Keeps the focus in the field.
          onMouseDown={(event) => event.preventDefault()}
          className="absolute inset-x-0 top-full z-30 mt-1 max-h-72 overflow-auto rounded-lg border border-line bg-surface p-1 text-sm shadow-xl"
        >
          <Status state={state} empty={empty} />
          <ul id={`${id}-list`} role="listbox" aria-label={label}>
            {options.map((option, index) => (
              <Option
                key={option.value}
                id={optionId(index)}
                option={option}
                isMarked={index === markedIndex}
                isChosen={option.value === value}
                onChoose={() => choose(option)}
              />
            ))}
          </ul>
          {state.kind === 'loaded' && state.footer !== undefined && (
            <p className="px-2 py-1.5 text-xs text-ink-soft">{state.footer}</p>
          )}
        </div>
      )}
    </div>
  )
}

function Status({ state, empty }: { state: ComboboxState; empty: string }) {
  switch (state.kind) {
    case 'loading':
      return (
        <p role="status" className="flex items-center gap-2 px-2 py-1.5 text-ink-soft">
          <Spinner /> Loading…
        </p>
      )
    case 'failed':
      return (
        <div role="alert" className="flex flex-wrap items-center gap-x-2 px-2 py-1.5">
          <p className="mr-auto min-w-0 break-words text-bad">{state.message}</p>
          <button type="button" onClick={state.onRetry} className="min-h-7 font-medium text-accent underline">
            Try again
          </button>
        </div>
      )
    case 'loaded':
      return state.options.length > 0 ? null : (
        <p role="status" className="px-2 py-1.5 text-ink-soft">
          {empty}
        </p>
      )
  }
}

function Option({
  id,
  option,
  isMarked,
  isChosen,
  onChoose,
}: {
  id: string
  option: ComboboxOption
  isMarked: boolean
  isChosen: boolean
  onChoose: () => void
}) {
  const row = useRef<HTMLLIElement>(null)
  useEffect(() => {
    if (isMarked) row.current?.scrollIntoView({ block: 'nearest' })
  }, [isMarked])
  return (
    <li
      ref={row}
      id={id}
      role="option"
      aria-selected={isMarked}
      onClick={onChoose}
      className={classes(
        'flex min-h-9 cursor-pointer items-center gap-2 rounded-md px-2 hover:bg-sunken',
        isMarked && 'bg-sunken',
      )}
    >
      {option.icon !== undefined && (
        <span aria-hidden className="shrink-0 text-ink-faint">
          {option.icon}
        </span>
      )}
      <span className="min-w-0 truncate" title={option.value}>
        {option.value}
      </span>
      {option.note !== undefined && <span className="shrink-0 text-xs text-ink-faint">{option.note}</span>}
      {isChosen && <Check size={14} aria-label="chosen" className="ml-auto shrink-0 text-accent" />}
    </li>
  )
}
