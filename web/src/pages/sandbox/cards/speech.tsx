import { Brain } from 'lucide-react'
import { useMemo } from 'react'
import { sentence } from '../../../api/errors'
import { useCancelMessage } from '../../../api/queries'
import type { SaidRow, TextRow, ThinkingRow } from '../../../timeline/rows'
import { clip } from '../../../ui/clip'
import { MoreButton } from '../../../ui/code'
import { useKept } from '../../../ui/kept'
import { Markdown } from '../../../ui/markdown'
import { toast } from '../../../ui/toast'
import { classes } from '../../../util/classes'
import { Receipts } from '../composer/receipts'
import { wholeText } from './output'
import { useRest } from './rest'

/** Longer than anybody reads in passing. */
const TEXT_LINES = 80
const THINKING_LINES = 4

/** The agent writes. */
export function TextCard({ row, sandboxId }: { row: TextRow; sandboxId: string }) {
  const { body, more } = useRest(sandboxId, row.rest, 'text')
  return (
    <div className="min-w-0 rounded-lg border border-line bg-surface px-4 py-2.5">
      <LongMarkdown text={body === null ? row.text : wholeText(body)} lines={TEXT_LINES} />
      {more}
    </div>
  )
}

/** What it is writing right now. */
export function PartialCard({ text, thinking }: { text: string; thinking: boolean }) {
  return (
    <div
      className={classes(
        'min-w-0 rounded-lg border px-4 py-2.5',
        thinking ? 'border-warn/30 bg-warn-soft text-sm' : 'border-line bg-surface',
      )}
    >
      {thinking && <ThinkingTitle />}
      <p className="break-words whitespace-pre-wrap">
        {text}
        <span aria-hidden className="ml-0.5 inline-block h-4 w-1.5 animate-pulse bg-accent align-text-bottom" />
      </p>
    </div>
  )
}

export function ThinkingCard({ row, sandboxId }: { row: ThinkingRow; sandboxId: string }) {
  const { body, more } = useRest(sandboxId, row.rest, 'thought')
  return (
    <div className="min-w-0 rounded-lg border border-warn/30 bg-warn-soft px-4 py-2 text-sm">
      <ThinkingTitle />
      <LongMarkdown text={body === null ? row.text : wholeText(body)} lines={THINKING_LINES} />
      {more}
    </div>
  )
}

function ThinkingTitle() {
  return (
    <p className="mb-0.5 flex items-center gap-1.5 text-xs font-medium text-warn">
      <Brain size={13} aria-hidden /> Thinking
    </p>
  )
}

/** Somebody says something to the agent. */
export function SaidCard({ row, sandboxId }: { row: SaidRow; sandboxId: string }) {
  const { body, more } = useRest(sandboxId, row.rest, 'message')
  const cancel = useCancelMessage(sandboxId)
  const { messageId } = row
  const text = body === null ? row.text : wholeText(body)
  return (
    <div className="flex flex-col items-end gap-1 pl-8 sm:pl-24">
      <div
        className={classes(
          'max-w-full min-w-0 rounded-lg border px-4 py-2',
          row.synthetic ? 'border-line bg-sunken text-sm text-ink-soft' : 'border-accent/25 bg-accent-soft',
        )}
      >
        <p className={classes('text-xs font-medium', row.synthetic ? 'text-ink-soft' : 'text-accent')}>{speaker(row)}</p>
        {text === '' ? <p className="text-ink-soft">Without a word.</p> : <LongMarkdown text={text} lines={TEXT_LINES / 2} />}
        {more}
      </div>
      {row.receipts.length > 0 && (
        <Receipts
          receipts={row.receipts}
          {...(messageId === null ? {} : { onCancel: () => cancel.mutate(messageId, { onError: (error) => toast(sentence(error), { tone: 'bad' }) }) })}
        />
      )}
    </div>
  )
}

/** Who speaks, and what it is meant to do. */
export function speaker({ messageType, sender, synthetic }: Pick<SaidRow, 'messageType' | 'sender' | 'synthetic'>): string {
  if (messageType === 'task') return 'The task'
  if (messageType === 'guidance') return 'Guidance'
  if (messageType === 'system' || synthetic) return 'A note to the agent'
  const who = sender?.id ?? (sender?.kind === 'operator' ? 'The operator' : 'You')
  if (messageType === 'interrupt') return `${who}, interrupting`
  return messageType === 'stop' ? `${who}, stopping everything` : who
}

function LongMarkdown({ text, lines }: { text: string; lines: number }) {
  const [open, setOpen] = useKept('all of the text', false)
  const cut = useMemo(() => clip(text, lines), [text, lines])
  return (
    <>
      <Markdown text={open ? text : cut.head} />
      {!cut.whole && <MoreButton onClick={() => setOpen(!open)}>{open ? 'Show less' : 'Show all of it'}</MoreButton>}
    </>
  )
}
