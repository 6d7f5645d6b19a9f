import { Hand, SendHorizontal } from 'lucide-react'
import { type KeyboardEvent, useEffect, useId, useMemo, useState, useSyncExternalStore } from 'react'
import type { Log } from '../../../api/use-log'
import { Button } from '../../../ui/button'
import { composes } from '../../../util/keys'
import { count } from '../../../util/numbers'
import { characters, MAX_CHARACTERS, type Outbox, unseen } from './outbox'
import { type OutboxStore, outboxOf } from './outbox-store'
import { StopEverything } from './stop-everything'
import { Unsent } from './unsent'

/** What an agent reads that is interrupted without a word. A message needs a text. */
const INTERRUPTION = 'Stop what you are doing, and wait for what I say next.'
const STOP = 'Stop everything.'

/** Where the reader says something to the agent. */
export function Composer({ sandboxId, log, ended }: { sandboxId: string; log: Log; ended: boolean }) {
  const outbox = outboxOf(sandboxId)
  const desk = useSyncExternalStore(outbox.subscribe, outbox.desk)
  const waiting = useUnseen(outbox, desk.messages, log)
  const hint = useId()
  const { draft } = desk
  const length = characters(draft)
  const isEmpty = draft.trim() === ''
  const isTooLong = length > MAX_CHARACTERS
  const canSend = !ended && !isEmpty && !isTooLong

  const say = (type: 'user_message' | 'interrupt') => {
    if (!canSend) return
    outbox.send(type, draft)
    outbox.write('')
  }
  const interrupt = () => {
    if (isEmpty) outbox.send('interrupt', INTERRUPTION)
    else say('interrupt')
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.altKey || composes(event)) return
    event.preventDefault()
    say(event.ctrlKey || event.metaKey ? 'interrupt' : 'user_message')
  }

  return (
    <form
      aria-label="Message to the agent"
      className="border-t border-line bg-surface px-3 pt-2 pb-3 sm:px-4 [&>*]:mx-auto [&>*]:max-w-[53rem]"
      onSubmit={(event) => {
        event.preventDefault()
        say('user_message')
      }}
    >
      <Unsent messages={waiting} outbox={outbox} />
      <div className="grid rounded-lg border border-line-strong/60 bg-page focus-within:outline-2 focus-within:outline-accent">
        {/* The same text in the same cell gives the field its height: no script has to measure it. */}
        <div aria-hidden className={`${cell} invisible`}>
          {draft}
          {'\u200b'}
        </div>
        <textarea
          aria-label="Message to the agent"
          aria-describedby={hint}
          aria-invalid={isTooLong}
          disabled={ended}
          placeholder={ended ? 'Nobody is there to read it' : 'Say something to the agent'}
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
          look="quiet"
          disabled={ended || isTooLong}
          title="Stops this turn. With a text, the agent goes on with that (Ctrl+Enter)."
          onClick={interrupt}
        >
          <Hand size={15} aria-hidden /> Interrupt
        </Button>
        <Button look="primary" type="submit" disabled={!canSend}>
          <SendHorizontal size={15} aria-hidden /> Send
        </Button>
      </div>
      <Announcement messages={waiting} />
    </form>
  )
}

/** Telephones enlarge the page around a field with smaller letters than these. */
const cell =
  'text-base sm:text-[0.9375rem] col-start-1 row-start-1 max-h-60 min-h-10 min-w-0 px-3 py-2 break-words whitespace-pre-wrap'

function Hint({ ended, length }: { ended: boolean; length: number }) {
  if (ended) return 'This sandbox has ended. Its log stays.'
  if (length > MAX_CHARACTERS) {
    return (
      <span className="text-bad">
        {count(length)} characters. A message has at most {count(MAX_CHARACTERS)}.
      </span>
    )
  }
  if (length > MAX_CHARACTERS * 0.9) return `${count(MAX_CHARACTERS - length)} characters left`
  return <span className="hidden sm:inline">Enter sends, Shift+Enter breaks the line, Ctrl+Enter interrupts.</span>
}

/** For those who do not see it: what became of the last message. */
function Announcement({ messages }: { messages: Outbox }) {
  const [had, setHad] = useState(false)
  // Once something was sent, an empty list means that it arrived.
  if (messages.length > 0 && !had) setHad(true)
  const last = messages.at(-1)
  const text =
    last === undefined
      ? had
        ? 'Your message is in the log.'
        : ''
      : last.state === 'failed'
        ? `Not sent. ${last.problem ?? ''}`
        : last.state === 'sending'
          ? 'Sending your message.'
          : 'Your message is queued.'
  return (
    <p role="status" aria-live="polite" className="sr-only">
      {text}
    </p>
  )
}

/** What the log does not show. What it shows is forgotten by the browser too. */
function useUnseen(outbox: OutboxStore, messages: Outbox, log: Pick<Log, 'events' | 'last'>): Outbox {
  const { events, last } = log
  const told = useMemo(() => {
    const ids = new Set<string>()
    if (messages.length === 0) return ids
    for (const { type, data } of events) {
      if (type === 'message.queued' && typeof data['message_id'] === 'string') ids.add(data['message_id'])
    }
    return ids
  }, [events, messages.length])
  useEffect(() => outbox.settle(last, told), [outbox, last, told])
  return unseen(messages, last, told)
}
