import { Brain } from 'lucide-react'
import { useMemo } from 'react'
import { errorMessage } from '../../../api/errors'
import { useCancelMessage } from '../../../api/queries'
import type { MessageRow, TextRow, ThinkingRow } from '../../../timeline/rows'
import { clip } from '../../../ui/clip'
import { MoreButton } from '../../../ui/code'
import { useRetainedState } from '../../../ui/retained-state'
import { Markdown } from '../../../ui/markdown'
import { toast } from '../../../ui/toast'
import { classes } from '../../../util/classes'
import { principalName } from '../../../util/principals'
import { Receipts } from '../composer/receipts'
import { isUndeliverable, Undeliverable } from '../composer/undeliverable'
import { fullText } from './output'
import { useFullBody } from './full-body'

/** Longer texts are collapsed. */
const TEXT_LINES = 80
const THINKING_LINES = 4

export function TextCard({ row, sandboxId }: { row: TextRow; sandboxId: string }) {
  const { body, more } = useFullBody(sandboxId, row.rest, 'text')
  return (
    <div className="min-w-0 rounded-lg border border-line bg-surface px-4 py-2.5">
      <LongMarkdown text={body === null ? row.text : fullText(body)} lines={TEXT_LINES} />
      {more}
    </div>
  )
}

/** Text that is still being generated. */
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
  const { body, more } = useFullBody(sandboxId, row.rest, 'text')
  return (
    <div className="min-w-0 rounded-lg border border-warn/30 bg-warn-soft px-4 py-2 text-sm">
      <ThinkingTitle />
      <LongMarkdown text={body === null ? row.text : fullText(body)} lines={THINKING_LINES} />
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

/** A message to the agent. */
export function MessageCard({ row, sandboxId }: { row: MessageRow; sandboxId: string }) {
  const { body, more } = useFullBody(sandboxId, row.rest, 'message')
  const cancel = useCancelMessage(sandboxId)
  const { messageId } = row
  const text = body === null ? row.text : fullText(body)
  return (
    <div className="flex flex-col items-end gap-1 pl-8 sm:pl-24">
      <div
        className={classes(
          'max-w-full min-w-0 rounded-lg border px-4 py-2',
          isOfWorker(row) ? 'border-line bg-sunken text-sm text-ink-soft' : 'border-accent/25 bg-accent-soft',
        )}
      >
        <p className={classes('text-xs font-medium', isOfWorker(row) ? 'text-ink-soft' : 'text-accent')}>
          {senderLabel(row)}
        </p>
        {text === '' ? <p className="text-ink-soft">No text</p> : <LongMarkdown text={text} lines={TEXT_LINES / 2} />}
        {more}
      </div>
      {row.receipts.length > 0 && (
        <Receipts
          receipts={row.receipts}
          sentAgain={row.version > 1}
          {...(messageId === null
            ? {}
            : {
                cancelling: cancel.isPending,
                onCancel: () =>
                  cancel.mutate(messageId, { onError: (error) => toast(errorMessage(error), { tone: 'bad' }) }),
              })}
        />
      )}
      {isUndeliverable(row) && (
        <Undeliverable sandboxId={sandboxId} messageId={row.messageId} deliveries={row.deliveries} />
      )}
    </div>
  )
}

/** Whether the worker wrote the row, or only the worker reports it: it is not styled as a message of a person. */
function isOfWorker({ synthetic, unverified }: MessageRow): boolean {
  return synthetic || unverified
}

/** The sender of a message and its intent. */
export function senderLabel({
  messageType,
  sender,
  synthetic,
  unverified,
}: Pick<MessageRow, 'messageType' | 'sender' | 'synthetic' | 'unverified'>): string {
  if (unverified) return 'Worker (sender not verified)'
  if (messageType === 'task') return 'Task'
  if (messageType === 'guidance') return 'Guidance'
  if (synthetic) return 'Worker'
  if (messageType === 'system') return 'System'
  const isUnnamed = sender === null || (sender.kind === 'user' && sender.id === null)
  const name = isUnnamed ? 'You' : principalName(sender)
  if (messageType === 'interrupt') return `${name} (interrupt)`
  return messageType === 'stop' ? `${name} (stop everything)` : name
}

function LongMarkdown({ text, lines }: { text: string; lines: number }) {
  const [open, setOpen] = useRetainedState('all of the text', false)
  const cut = useMemo(() => clip(text, lines), [text, lines])
  return (
    <>
      <Markdown text={open ? text : cut.start} />
      {!cut.complete && <MoreButton onClick={() => setOpen(!open)}>{open ? 'Show less' : 'Show all'}</MoreButton>}
    </>
  )
}
