import { CornerDownLeft } from 'lucide-react'
import { useId, useState, type KeyboardEvent } from 'react'
import { useNavigate } from 'react-router'
import type { Duplicates, TicketOut } from '../../api/contract'
import { sentence } from '../../api/errors'
import { useCreateTicket } from '../../api/queries'
import { Button } from '../../ui/button'
import { Spinner } from '../../ui/spinner'
import { composes } from '../../util/keys'
import { paths } from '../../util/paths'
import { forgetTicketId, loadDraft, saveDraft, ticketIdFor, wishOf, type Draft } from './draft'
import { DuplicateTickets } from './duplicates'
import { Options } from './options'

/** Says what is wanted, and makes a ticket of it. */
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
    // They were found for what was written before.
    setDuplicates(null)
  }
  const submit = async (inAnyCase: boolean) => {
    if (!mayCreate) return
    const wish = wishOf(draft)
    setDuplicates(null)
    try {
      const answer = await create.mutateAsync({
        ...wish,
        ticket_id: ticketIdFor(wish),
        ...(inAnyCase ? { force_create: true } : {}),
      })
      if ('is_duplicate' in answer) {
        setDuplicates(answer)
        return
      }
      forgetTicketId()
      saveDraft({ ...draft, prompt: '' })
      void navigate(paths.progress(answer.id))
    } catch {
      // `create.error` is shown, and what was written is still here.
    }
  }
  const press = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || composes(event)) return
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
            What should be done?
          </label>
        </h1>
        <textarea
          id={field}
          autoFocus
          rows={5}
          value={draft.prompt}
          readOnly={create.isPending}
          placeholder="Describe it as you would to a colleague."
          onChange={(event) => change({ prompt: event.target.value })}
          onKeyDown={press}
          className="field-sizing-content max-h-[50vh] min-h-32 w-full resize-y rounded-xl border border-line-strong/60 bg-surface p-4 placeholder:text-ink-faint"
        />
      </div>
      <Options draft={draft} onChange={change} recent={recent} />
      <div className="flex flex-wrap items-center justify-between gap-3">
        <p className="text-xs text-ink-faint">Enter starts it, Shift+Enter breaks the line.</p>
        <Button look="primary" type="submit" disabled={!mayCreate}>
          {create.isPending ? <Spinner /> : <CornerDownLeft size={14} aria-hidden />}
          {create.isPending ? 'Creating the ticket…' : 'Start'}
        </Button>
      </div>
      {create.error !== null && (
        <p role="alert" className="rounded-lg border border-bad/30 bg-bad-soft px-3 py-2 text-sm text-bad">
          {sentence(create.error)} What you wrote is kept.
        </p>
      )}
      {duplicates !== null && <DuplicateTickets found={duplicates} onCreate={() => void submit(true)} />}
    </form>
  )
}
