import { SendHorizontal } from 'lucide-react'
import { useContext, useSyncExternalStore } from 'react'
import { Button } from '../../../ui/button'
import { toast } from '../../../ui/toast'
import { plural } from '../../../util/numbers'
import { outboxOf } from '../composer/outbox-store'
import { SandboxEnded } from '../sandbox-ended'
import { commentsOf, countOf, isTooLong, messageOf, written } from './line-comments'

/** Sends all comments to the agent as one message. Renders nothing without a comment. */
export function CommentBar({ sandboxId }: { sandboxId: string }) {
  const store = commentsOf(sandboxId)
  const comments = useSyncExternalStore(store.subscribe, store.state)
  const ended = useContext(SandboxEnded)
  if (countOf(comments) === 0) return null
  const said = written(comments)
  const message = messageOf(said)
  const tooLong = isTooLong(message)
  const send = () => {
    outboxOf(sandboxId).send('user_message', message)
    store.clear()
    toast('Comments sent. The Events tab shows when the agent gets them.')
  }
  return (
    <section
      aria-label="Comments"
      className="sticky bottom-0 z-10 -mx-3 flex flex-wrap items-center gap-2 border-t border-line bg-surface px-3 py-2 text-sm sm:-mx-4 sm:px-4"
    >
      <p role="status" className="mr-auto min-w-0">
        {plural(countOf(said), 'comment')}
        {ended && <span className="text-ink-soft">. The sandbox has ended, so its agent cannot be asked.</span>}
        {tooLong && <span className="text-bad">. Too long for one message: remove or shorten some.</span>}
      </p>
      <Button onClick={() => store.clear()}>Discard</Button>
      <Button variant="primary" disabled={ended || tooLong || countOf(said) === 0} onClick={send}>
        <SendHorizontal size={15} aria-hidden /> Send to the agent
      </Button>
    </section>
  )
}
