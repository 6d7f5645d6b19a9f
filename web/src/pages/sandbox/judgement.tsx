import { useId, useState } from 'react'
import { sentence } from '../../api/errors'
import { useJudge } from '../../api/queries'
import { Button } from '../../ui/button'

/** The agent says that it is done, and somebody has to look. */
export function Judgement({ sandboxId, taskId }: { sandboxId: string; taskId: string }) {
  const judge = useJudge(sandboxId)
  const [sendsBack, setSendsBack] = useState(false)
  const [feedback, setFeedback] = useState('')
  const field = useId()
  const say = (passed: boolean) => judge.mutate({ taskId, passed, feedback: feedback.trim() })
  return (
    <section aria-label="Judgement" className="shrink-0 border-y border-warn/30 bg-warn-soft px-4 py-2 text-sm">
      <div className="flex flex-wrap items-center gap-2">
        <p className="mr-auto">
          <span className="font-medium">Is this done?</span> <span className="text-ink-soft">The agent says so. It waits for you.</span>
        </p>
        {!sendsBack && (
          <>
            <Button look="primary" disabled={judge.isPending} onClick={() => say(true)}>
              Accept
            </Button>
            <Button disabled={judge.isPending} onClick={() => setSendsBack(true)}>
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
            say(false)
          }}
        >
          <label htmlFor={field} className="font-medium">
            What is missing?
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
            <Button onClick={() => setSendsBack(false)}>Not now</Button>
            <Button look="primary" type="submit" disabled={judge.isPending || feedback.trim() === ''}>
              Send back
            </Button>
          </div>
        </form>
      )}
      {judge.isError && (
        <p role="alert" className="mt-1 text-bad">
          {sentence(judge.error)}
        </p>
      )}
    </section>
  )
}
