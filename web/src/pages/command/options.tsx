import { useId } from 'react'
import { PRIORITIES, type Priority, type TicketOut } from '../../api/contract'
import { suggestedAgents } from './agents'
import type { Draft } from './draft'
import { BaseField, RepositoryField } from './repository-field'

const FIELD =
  'min-h-9 w-full rounded-md border border-line-strong/60 bg-surface px-2.5 text-sm placeholder:text-ink-faint'

const priorities: Record<Priority, string> = { LOW: 'Low', MEDIUM: 'Medium', HIGH: 'High', CRITICAL: 'Critical' }

/** Optional settings of a ticket. Empty fields use the defaults of the control plane. */
export function Options({
  draft,
  onChange,
  recent,
}: {
  draft: Draft
  onChange: (change: Partial<Draft>) => void
  recent: readonly TicketOut[]
}) {
  const priority = useId()
  return (
    <div className="grid grid-cols-2 gap-3 sm:grid-cols-6">
      <RepositoryField
        value={draft.repository}
        onChange={(repository) => onChange({ repository })}
        project={draft.project}
        recent={distinct(recent.map((ticket) => ticket.repository))}
        className="col-span-2 sm:col-span-4"
      />
      <BaseField
        repository={draft.repository}
        value={draft.base}
        onChange={(base) => onChange({ base })}
        project={draft.project}
        className="sm:col-span-2"
      />
      <Suggested
        label="Project"
        hint="None"
        value={draft.project}
        suggestions={distinct(recent.map((ticket) => ticket.project_id))}
        onChange={(project) => onChange({ project })}
        className="sm:col-span-3"
      />
      <Suggested
        label="Agent"
        hint="Default"
        value={draft.agent}
        suggestions={suggestedAgents(location.hostname)}
        onChange={(agent) => onChange({ agent })}
        className="col-span-2 sm:col-span-3"
      />
      <Suggested
        label="Model"
        hint="Default"
        value={draft.model}
        suggestions={[]}
        onChange={(model) => onChange({ model })}
        className="sm:col-span-3"
      />
      <div className="sm:col-span-3">
        <label htmlFor={priority} className="mb-1 block text-xs font-medium text-ink-soft">
          Priority
        </label>
        <select
          id={priority}
          className={FIELD}
          value={draft.priority}
          onChange={(event) => {
            const chosen = PRIORITIES.find((known) => known === event.target.value)
            if (chosen !== undefined) onChange({ priority: chosen })
          }}
        >
          {PRIORITIES.map((known) => (
            <option key={known} value={known}>
              {priorities[known]}
            </option>
          ))}
        </select>
      </div>
    </div>
  )
}

/** A text field with suggestions. */
function Suggested({
  label,
  hint,
  value,
  suggestions,
  onChange,
  className,
}: {
  label: string
  hint: string
  value: string
  suggestions: readonly string[]
  onChange: (value: string) => void
  className: string
}) {
  const field = useId()
  const list = useId()
  return (
    <div className={className}>
      <label htmlFor={field} className="mb-1 block text-xs font-medium text-ink-soft">
        {label}
      </label>
      <input
        id={field}
        list={list}
        value={value}
        placeholder={hint}
        autoComplete="off"
        autoCapitalize="off"
        spellCheck={false}
        onChange={(event) => onChange(event.target.value)}
        className={FIELD}
      />
      <datalist id={list}>
        {suggestions.map((suggestion) => (
          <option key={suggestion} value={suggestion} />
        ))}
      </datalist>
    </div>
  )
}

const distinct = (values: readonly (string | null)[]) => [...new Set(values.filter((value) => value !== null))]
