import { Link, useParams } from 'react-router'
import { Refused } from '../api/http'
import { useSandbox, useSandboxTask } from '../api/queries'
import { useLog } from '../api/use-log'
import { Empty } from '../ui/states'
import { paths } from '../util/paths'
import { Composer } from './sandbox/composer/composer'
import { Header } from './sandbox/header'
import { Judgement } from './sandbox/judgement'
import { Panels } from './sandbox/panels'

/** One sandbox: what its agent does, live, and a way to talk to it. */
export default function SandboxPage() {
  const { id = '' } = useParams()
  // Another sandbox is another page: nothing of the last one stays.
  return <Monitor key={id} sandboxId={id} />
}

function Monitor({ sandboxId }: { sandboxId: string }) {
  const sandbox = useSandbox(sandboxId)
  const task = useSandboxTask(sandboxId)
  const log = useLog(sandboxId)
  if (isUnknown(sandbox.error)) {
    return (
      <Empty title="There is no such sandbox">
        <p>
          Nothing is known of <code className="font-mono break-all">{sandboxId}</code>. It may be another organisation’s.
        </p>
        <Link to={paths.sandboxes} className="font-medium text-accent underline underline-offset-2">
          All sandboxes
        </Link>
      </Empty>
    )
  }
  // Whether the task can be read or not, the feed is shown: it is what people come for.
  return (
    <div className="flex h-full min-h-0 flex-col">
      <Header sandboxId={sandboxId} sandbox={sandbox.data ?? null} task={task.data ?? null} log={log} />
      {task.data?.status === 'validating' && task.data.sandbox_id === sandboxId && <Judgement sandboxId={sandboxId} taskId={task.data.id} />}
      <Panels
        sandboxId={sandboxId}
        log={log}
        composer={<Composer sandboxId={sandboxId} log={log} ended={isOver(sandbox.data?.status)} />}
      />
    </div>
  )
}

const isUnknown = (error: unknown) => error instanceof Refused && error.status === 404

const isOver = (status: string | undefined) => status === 'completed' || status === 'failed' || status === 'terminated'
