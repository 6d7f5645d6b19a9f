import { Hand, SendHorizontal } from 'lucide-react'
import { type KeyboardEvent, useEffect, useId, useMemo, useState, useSyncExternalStore } from 'react'
import type { Log } from '../../../api/use-log'
import { text } from '../../../timeline/read'
import { Button } from '../../../ui/button'
import { isComposing } from '../../../util/keys'
import { count } from '../../../util/numbers'
import { characters, MAX_CHARACTERS, type Outbox, unlogged } from './outbox'
import { type OutboxStore, outboxOf } from './outbox-store'
import { StopEverything } from './stop-everything'
import { UndeliverableMessages } from './undeliverable'
import { Unsent } from './unsent'

/** The text of an interruption without a message. The API requires a text. */
const INTERRUPTION = 'Stop what you are doing, and wait for what I say next.'
const STOP = 'Stop everything.'

/** The form for messages to the agent. */
export function Composer({ sandboxId, log, ended }: { sandboxId: string; log: Log; ended: boolean }) {
  const outbox = outboxOf(sandboxId)
  const state = useSyncExternalStore(outbox.subscribe, outbox.state)
  const waiting = useUnlogged(outbox, state.messages, log)
  const hint = useId()
  const { draft } = state
  const length = characters(draft)
  const isEmpty = draft.trim() === ''
  const isTooLong = length > MAX_CHARACTERS
  const canSend = !ended && !isEmpty && !isTooLong

  const submit = (type: 'user_message' | 'interrupt') => {
    if (!canSend) return
    outbox.send(type, draft)
    outbox.write('')
  }
  const interrupt = () => {
    if (isEmpty) outbox.send('interrupt', INTERRUPTION)
    else submit('interrupt')
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.altKey || isComposing(event)) return
    event.preventDefault()
    submit(event.ctrlKey || event.metaKey ? 'interrupt' : 'user_message')
  }

  return (
    <form
      aria-label="Message to the agent"
      className="border-t border-line bg-surface px-3 pt-2 pb-3 sm:px-4 [&>*]:mx-auto [&>*]:max-w-[53rem]"
      onSubmit={(event) => {
        event.preventDefault()
        submit('user_message')
      }}
    >
      <UndeliverableMessages sandboxId={sandboxId} rows={ended ? [] : log.timeline.rows} />
      <Unsent messages={waiting} outbox={outbox} />
      <div className="grid rounded-lg border border-line-strong/60 bg-page focus-within:outline-2 focus-within:outline-accent">
        {/* A hidden copy of the text in the same grid cell sizes the field without scripted measuring. */}
        <div aria-hidden className={`${cell} invisible`}>
          {draft}
          {'\u200b'}
        </div>
        <textarea
          aria-label="Message to the agent"
          aria-describedby={hint}
          aria-invalid={isTooLong}
          disabled={ended}
          placeholder={ended ? 'Sandbox ended' : 'Send a message to the agent'}
          rows={1}
          value={draft}
          onChange={(event) => outbox.write(event.target.value)}
          onKeyDown={onKeyDown}
          className={`${cell} resize-none overflow-auto bg-transparent outline-none placeholder:text-ink-faint disabled:cursor-not-allowed`}
        />
      </div>
      <div className="mt-2 flex flex-wrap items-center justify-end gap-x-1 sm:gap-x-2">
        <p id={hint} className="min-w-0 basis-full text-xs text-ink-faint sm:flex-1">
          <Hint ended={ended} length={length} />
        </p>
        <StopEverything disabled={ended} onStop={() => outbox.send('stop', STOP)} />
        <Button
          variant="quiet"
          disabled={ended || isTooLong}
          title="Stops the current turn. With a message, the agent continues with it (Ctrl+Enter)."
          onClick={interrupt}
        >
          <Hand size={15} aria-hidden /> Interrupt
        </Button>
        <Button variant="primary" type="submit" disabled={!canSend}>
          <SendHorizontal size={15} aria-hidden /> Send
        </Button>
      </div>
      <Announcement messages={waiting} />
    </form>
  )
}

/** Phones zoom into fields with a smaller font than this. */
const cell =
  'text-base sm:text-[0.9375rem] col-start-1 row-start-1 max-h-60 min-h-10 min-w-0 px-3 py-2 break-words whitespace-pre-wrap'

function Hint({ ended, length }: { ended: boolean; length: number }) {
  if (ended) return 'Sandbox ended. Its events are kept.'
  if (length > MAX_CHARACTERS) {
    return (
      <span className="text-bad">
        {count(length)} characters. The maximum is {count(MAX_CHARACTERS)}.
      </span>
    )
  }
  if (length > MAX_CHARACTERS * 0.9) return `${count(MAX_CHARACTERS - length)} characters left`
  return <span className="hidden sm:inline">Enter to send, Shift+Enter for a new line, Ctrl+Enter to interrupt.</span>
}

/** Announces the state of the last message to screen readers. */
function Announcement({ messages }: { messages: Outbox }) {
  const [hadMessages, setHadMessages] = useState(false)
  // After a message was sent, an empty list means that it arrived.
  if (messages.length > 0 && !hadMessages) setHadMessages(true)
  const last = messages.at(-1)
  const text =
    last === undefined
      ? hadMessages
        ? 'Message received.'
        : ''
      : last.state === 'failed'
        ? `Not sent. ${last.problem ?? ''}`
        : last.state === 'sending'
          ? 'Sending message.'
          : 'Message queued.'
  return (
    <p role="status" aria-live="polite" className="sr-only">
      {text}
    </p>
  )
}

/** Messages that are not in the log yet. Those in the log are removed from the outbox. */
function useUnlogged(outbox: OutboxStore, messages: Outbox, log: Pick<Log, 'events' | 'last'>): Outbox {
  const { events, last } = log
  const logged = useMemo(() => {
    const ids = new Set<string>()
    if (messages.length === 0) return ids
    for (const event of events) {
      const id = event.type === 'message.queued' ? text(event.data, 'message_id') : null
      if (id !== null) ids.add(id)
    }
    return ids
  }, [events, messages.length])
  useEffect(() => outbox.prune(last, logged), [outbox, last, logged])
  return unlogged(messages, last, logged)
}
