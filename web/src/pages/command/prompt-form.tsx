import { CornerDownLeft } from 'lucide-react'
import { useId, useState, type KeyboardEvent } from 'react'
import { useNavigate } from 'react-router'
import type { Duplicates, TicketOut } from '../../api/contract'
import { errorMessage } from '../../api/errors'
import { useCreateTicket } from '../../api/queries'
import { Button } from '../../ui/button'
import { Spinner } from '../../ui/spinner'
import { isComposing } from '../../util/keys'
import { paths } from '../../util/paths'
import { forgetTicketId, loadDraft, saveDraft, ticketIdFor, ticketOf, type Draft } from './draft'
import { DuplicateTickets } from './duplicates'
import { Options } from './options'

/** The form that creates a ticket. */
export function PromptForm({ recent }: { recent: readonly TicketOut[] }) {
  const navigate = useNavigate()
  const create = useCreateTicket()
  const [draft, setDraft] = useState(loadDraft)
  const [duplicates, setDuplicates] = useState<Duplicates | null>(null)
  const field = useId()
  const mayCreate = draft.prompt.trim() !== '' && !create.isPending

  const change = (changed: Partial<Draft>) => {
    const next = { ...draft, ...changed }
    setDraft(next)
    saveDraft(next)
    // The duplicates belong to the previous text.
    setDuplicates(null)
  }
  const submit = async (force: boolean) => {
    if (!mayCreate) return
    const ticket = ticketOf(draft)
    setDuplicates(null)
    try {
      const created = await create.mutateAsync({
        ...ticket,
        ticket_id: ticketIdFor(ticket),
        ...(force ? { force_create: true } : {}),
      })
      if ('is_duplicate' in created) {
        setDuplicates(created)
        return
      }
      forgetTicketId()
      saveDraft({ ...draft, prompt: '' })
      void navigate(paths.progress(created.id))
    } catch {
      // `create.error` is shown, and the draft is kept.
    }
  }
  const press = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || isComposing(event)) return
    event.preventDefault()
    void submit(false)
  }
  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={(event) => {
        event.preventDefault()
        void submit(false)
      }}
    >
      <div className="flex flex-col gap-2">
        <h1>
          <label htmlFor={field} className="text-xl font-semibold">
            What should the agent do?
          </label>
        </h1>
        <textarea
          id={field}
          autoFocus
          rows={5}
          value={draft.prompt}
          readOnly={create.isPending}
          placeholder="Describe the task as you would to a colleague."
          onChange={(event) => change({ prompt: event.target.value })}
          onKeyDown={press}
          className="field-sizing-content max-h-[50vh] min-h-32 w-full resize-y rounded-xl border border-line-strong/60 bg-surface p-4 placeholder:text-ink-faint"
        />
      </div>
      <Options draft={draft} onChange={change} recent={recent} />
      <div className="flex flex-wrap items-center justify-between gap-3">
        <p className="text-xs text-ink-faint">Press Enter to start, Shift+Enter for a new line.</p>
        <Button variant="primary" type="submit" disabled={!mayCreate}>
          {create.isPending ? <Spinner /> : <CornerDownLeft size={14} aria-hidden />}
          {create.isPending ? 'Creating ticket…' : 'Start'}
        </Button>
      </div>
      {create.error !== null && (
        <p role="alert" className="rounded-lg border border-bad/30 bg-bad-soft px-3 py-2 text-sm text-bad">
          {errorMessage(create.error)} Your prompt is saved.
        </p>
      )}
      {duplicates !== null && <DuplicateTickets found={duplicates} onCreate={() => void submit(true)} />}
    </form>
  )
}
