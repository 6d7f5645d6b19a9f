import { ArrowLeft, Shield, ShieldOff } from 'lucide-react'
import { Link } from 'react-router'
import type { SandboxOut, TaskOut } from '../../api/contract'
import type { Log } from '../../api/use-log'
import { Badge } from '../../ui/badge'
import { ConnectionChip } from '../../ui/connection'
import { CopyButton } from '../../ui/copy'
import { StatusBadge, ofSandbox, ofTask } from '../../ui/status'
import { paths } from '../../util/paths'
import { BranchLine } from './branch/branch-line'
import { Menu } from './menu'

/** How the agent is isolated from the machine. */
function Isolation({ tier }: { tier: string | null }) {
  if (tier === null) return null
  if (tier === 'none') {
    return (
      <Badge tone="bad" icon={<ShieldOff size={12} aria-hidden />}>
        Not isolated
      </Badge>
    )
  }
  return (
    <Badge tone="quiet" icon={<Shield size={12} aria-hidden />}>
      {`Isolation: ${tier}`}
    </Badge>
  )
}

/** Title, status and actions of a sandbox. */
export function Header({
  sandboxId,
  sandbox,
  task,
  log,
}: {
  sandboxId: string
  sandbox: SandboxOut | null
  task: TaskOut | null
  log: Log
}) {
  // A retried task runs in another sandbox, so its status does not apply to this one.
  const isCurrent = task !== null && task.sandbox_id === sandboxId
  const branch = task?.branch ?? null
  const title = task?.title ?? sandbox?.name ?? 'Sandbox'
  return (
    <header className="flex shrink-0 items-start gap-1.5 bg-surface px-2 pt-2 pb-1 sm:px-4">
      <Link
        to={paths.sandboxes}
        aria-label="Back to all sandboxes"
        title="All sandboxes"
        className="inline-grid size-9 shrink-0 place-items-center rounded-md text-ink-soft hover:bg-sunken hover:text-ink"
      >
        <ArrowLeft size={16} aria-hidden />
      </Link>
      <div className="min-w-0 flex-1">
        <h1 className="truncate pt-1 text-base font-semibold" title={title}>
          {title}
        </h1>
        <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <span data-testid="status">
            {isCurrent ? (
              <StatusBadge status={ofTask(task)} />
            ) : (
              sandbox !== null && <StatusBadge status={ofSandbox(sandbox)} />
            )}
          </span>
          <Isolation tier={log.run.isolation} />
          <ConnectionChip connection={log.connection} detail={log.detail} onRetry={log.retry} />
          <span className="flex min-w-0 items-center">
            <code className="min-w-0 truncate font-mono text-xs text-ink-soft">{sandboxId}</code>
            <CopyButton text={sandboxId} what="sandbox ID" />
          </span>
          {task !== null && branch !== null && <BranchLine taskId={task.id} branch={branch} />}
          {task !== null && !isCurrent && task.sandbox_id !== null && (
            <Link
              to={paths.sandbox(task.sandbox_id)}
              className="text-xs font-medium text-accent underline underline-offset-2"
            >
              A later attempt runs in another sandbox
            </Link>
          )}
        </div>
      </div>
      <Menu sandboxId={sandboxId} sandbox={sandbox} task={isCurrent ? task : null} title={title} />
    </header>
  )
}
