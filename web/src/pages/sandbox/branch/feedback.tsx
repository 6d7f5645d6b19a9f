import { useRequestFeedback } from '../../../api/branch-queries'
import type { FeedbackOut, Remark } from '../../../api/contract'
import { errorMessage } from '../../../api/errors'
import { Button } from '../../../ui/button'
import { Spinner } from '../../../ui/spinner'

/** The rounds of feedback on a pull request, and what is left to a person. Renders nothing before the first one. */
export function Feedback({ taskId, feedback }: { taskId: string; feedback: FeedbackOut }) {
  const { rounds, in_progress: inProgress, left_to_person: left } = feedback
  if (rounds === 0 && left.length === 0) return null
  return (
    <section aria-label="Feedback" className="flex min-w-0 flex-col gap-2 border-t border-line pt-3">
      <p className="text-ink-soft">{summary(rounds, inProgress.length, left.length)}</p>
      <Remarks remarks={inProgress.length > 0 ? inProgress : left} />
      {inProgress.length === 0 && left.length > 0 && <Continue taskId={taskId} />}
    </section>
  )
}

function summary(rounds: number, inProgress: number, left: number): string {
  const number = (count: number, word: string) => `${count} ${word}${count === 1 ? '' : 's'}`
  if (inProgress > 0) return `Round ${rounds} of feedback: the agent works on ${number(inProgress, 'point')}.`
  const done = `${number(rounds, 'round')} of feedback.`
  return left > 0 ? `${done} ${number(left, 'point')} left to you.` : done
}

function Remarks({ remarks }: { remarks: readonly Remark[] }) {
  if (remarks.length === 0) return null
  return (
    <ul className="flex max-h-64 flex-col gap-2 overflow-auto">
      {remarks.map((remark) => (
        <li key={remark.key} className="min-w-0">
          <span className="font-medium break-words">{place(remark)}</span>
          {typeof remark.author === 'string' && <span className="text-ink-soft"> · {remark.author}</span>}
          {remark.text !== '' && <p className="line-clamp-3 break-words whitespace-pre-wrap">{remark.text}</p>}
        </li>
      ))}
    </ul>
  )
}

function place({ kind, path, line, check }: Remark): string {
  switch (kind) {
    case 'thread':
      return typeof line === 'number' ? `${path ?? 'Thread'}:${line}` : (path ?? 'Thread')
    case 'review':
      return 'Review'
    case 'comment':
      return 'Comment'
    case 'check':
      return `Check ${check ?? ''}`.trim()
    case 'conflict':
      return 'Conflicts with the base'
  }
}

function Continue({ taskId }: { taskId: string }) {
  const request = useRequestFeedback(taskId)
  return (
    <div className="flex flex-wrap items-center gap-2">
      <Button disabled={request.isPending} onClick={() => request.mutate()}>
        {request.isPending && <Spinner />} Let the agent continue
      </Button>
      {request.isError && (
        <p role="alert" className="mr-auto min-w-0 break-words text-bad">
          {errorMessage(request.error)}
        </p>
      )}
    </div>
  )
}
