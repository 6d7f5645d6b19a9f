import { X } from 'lucide-react'
import { useEffect, useRef } from 'react'
import type { LineComment } from './line-comments'

/** A comment below its line. It is kept as it is written. */
export function CommentForm({
  comment,
  onWrite,
  onRemove,
}: {
  comment: LineComment
  onWrite: (text: string) => void
  onRemove: () => void
}) {
  const field = useRef<HTMLTextAreaElement>(null)
  const isNew = comment.text === ''
  // Only where the reader has asked for it, and not for a comment of an earlier visit.
  useEffect(() => {
    if (isNew) field.current?.focus()
    // eslint-disable-next-line react-hooks/exhaustive-deps -- once, when it appears
  }, [])
  return (
    <div className="flex items-start gap-2 border-y border-line bg-sunken p-2 font-sans">
      <textarea
        ref={field}
        aria-label={`Comment on line ${comment.line}`}
        rows={2}
        value={comment.text}
        placeholder="What should the agent do about this line?"
        onChange={({ target }) => onWrite(target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape' && comment.text.trim() === '') onRemove()
        }}
        className="field-sizing-content max-h-60 min-h-14 w-full min-w-0 resize-y rounded-md border border-line-strong/60 bg-surface px-2.5 py-1.5 text-base placeholder:text-ink-faint sm:text-sm"
      />
      <button
        type="button"
        aria-label={`Remove comment on line ${comment.line}`}
        onClick={onRemove}
        className="flex size-9 shrink-0 items-center justify-center rounded-md text-ink-faint hover:bg-surface hover:text-ink"
      >
        <X size={15} aria-hidden />
      </button>
    </div>
  )
}
