import { useId, useState } from 'react'
import { errorMessage } from '../../api/errors'
import { useReview } from '../../api/queries'
import { Button } from '../../ui/button'

/** Asks for a review of the result after the agent has finished. */
export function ReviewBar({ sandboxId, taskId }: { sandboxId: string; taskId: string }) {
  const review = useReview(sandboxId)
  const [sendsBack, setSendsBack] = useState(false)
  const [feedback, setFeedback] = useState('')
  const field = useId()
  const submit = (passed: boolean) => review.mutate({ taskId, passed, feedback: feedback.trim() })
  return (
    <section aria-label="Review" className="shrink-0 border-y border-warn/30 bg-warn-soft px-4 py-2 text-sm">
      <div className="flex flex-wrap items-center gap-2">
        <p className="mr-auto">
          <span className="font-medium">Review the result.</span>{' '}
          <span className="text-ink-soft">The agent has finished and is waiting for your decision.</span>
        </p>
        {!sendsBack && (
          <>
            <Button variant="primary" disabled={review.isPending} onClick={() => submit(true)}>
              Accept
            </Button>
            <Button disabled={review.isPending} onClick={() => setSendsBack(true)}>
              Send back…
            </Button>
          </>
        )}
      </div>
      {sendsBack && (
        <form
          className="mt-2 flex flex-col gap-2"
          onSubmit={(event) => {
            event.preventDefault()
            submit(false)
          }}
        >
          <label htmlFor={field} className="font-medium">
            What needs to change?
          </label>
          <textarea
            id={field}
            rows={3}
            autoFocus
            value={feedback}
            onChange={(event) => setFeedback(event.target.value)}
            className="w-full rounded-md border border-line-strong/60 bg-page px-3 py-2"
          />
          <div className="flex justify-end gap-2">
            <Button onClick={() => setSendsBack(false)}>Cancel</Button>
            <Button variant="primary" type="submit" disabled={review.isPending || feedback.trim() === ''}>
              Send back
            </Button>
          </div>
        </form>
      )}
      {review.isError && (
        <p role="alert" className="mt-1 text-bad">
          {errorMessage(review.error)}
        </p>
      )}
    </section>
  )
}
