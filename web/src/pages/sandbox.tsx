import { Link, useParams } from 'react-router'
import { ApiError } from '../api/http'
import { useSandbox, useSandboxTask } from '../api/queries'
import { useLog } from '../api/use-log'
import { Empty } from '../ui/states'
import { paths } from '../util/paths'
import { Composer } from './sandbox/composer/composer'
import { Header } from './sandbox/header'
import { ReviewBar } from './sandbox/review-bar'
import { Panels } from './sandbox/panels'
import { SandboxEnded } from './sandbox/sandbox-ended'

/** A sandbox: live events of its agent, and a composer for messages. */
export default function SandboxPage() {
  const { id = '' } = useParams()
  // The key resets all state when the sandbox changes.
  return <Monitor key={id} sandboxId={id} />
}

function Monitor({ sandboxId }: { sandboxId: string }) {
  const sandbox = useSandbox(sandboxId)
  const task = useSandboxTask(sandboxId)
  const log = useLog(sandboxId)
  if (isNotFound(sandbox.error)) {
    return (
      <Empty title="Sandbox not found">
        <p>
          Sandbox <code className="font-mono break-all">{sandboxId}</code> does not exist, or you do not have access to
          it.
        </p>
        <Link to={paths.sandboxes} className="font-medium text-accent underline underline-offset-2">
          All sandboxes
        </Link>
      </Empty>
    )
  }
  const ended = hasEnded(sandbox.data?.status)
  // Show the feed even if the task could not be loaded.
  return (
    <div className="flex h-full min-h-0 flex-col">
      <Header sandboxId={sandboxId} sandbox={sandbox.data ?? null} task={task.data ?? null} log={log} />
      {task.data?.status === 'validating' && task.data.sandbox_id === sandboxId && (
        <ReviewBar sandboxId={sandboxId} taskId={task.data.id} />
      )}
      <SandboxEnded value={ended}>
        <Panels
          sandboxId={sandboxId}
          log={log}
          hasChanges={(task.data ?? null) !== null}
          composer={<Composer sandboxId={sandboxId} log={log} ended={ended} />}
        />
      </SandboxEnded>
    </div>
  )
}

const isNotFound = (error: unknown) => error instanceof ApiError && error.status === 404

const hasEnded = (status: string | undefined) =>
  status === 'completed' || status === 'failed' || status === 'terminated'
