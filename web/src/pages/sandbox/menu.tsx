import { Columns2, Ellipsis, OctagonX, RotateCw, Square } from 'lucide-react'
import { AlertDialog, DropdownMenu } from 'radix-ui'
import { type ReactNode, useState } from 'react'
import { useNavigate } from 'react-router'
import type { SandboxOut, TaskOut } from '../../api/contract'
import { errorMessage } from '../../api/errors'
import { useCancelTask, useFailTask, useRetryTask, useStopSandbox } from '../../api/queries'
import { Button } from '../../ui/button'
import { toast } from '../../ui/toast'
import { classes } from '../../util/classes'
import { paths } from '../../util/paths'

/** The actions of a sandbox and its task. Only possible actions are shown, and destructive ones require confirmation. */
export function Menu({
  sandboxId,
  sandbox,
  task,
  title,
}: {
  sandboxId: string
  sandbox: SandboxOut | null
  /** The task, if this is the sandbox of its current attempt. */
  task: TaskOut | null
  title: string
}) {
  const navigate = useNavigate()
  const stop = useStopSandbox()
  const cancel = useCancelTask()
  const fail = useFailTask()
  const retry = useRetryTask()
  const [confirming, setConfirming] = useState<'stop' | 'fail' | null>(null)
  const taskRuns = task !== null && !['completed', 'failed', 'cancelled'].includes(task.status)
  const sandboxRuns = sandbox !== null && !['completed', 'failed', 'terminated'].includes(sandbox.status)
  const mayRetry = task !== null && (task.status === 'failed' || task.status === 'cancelled')

  const run = async (work: Promise<unknown>, done: string, retryTaskId: string | null) => {
    try {
      await work
      toast(done, retryTaskId === null ? {} : { action: { label: 'Retry', run: () => retryTask(retryTaskId) } })
    } catch (error) {
      toast(errorMessage(error), { tone: 'bad' })
    }
  }
  const retryTask = (taskId: string) => void run(retry.mutateAsync(taskId), 'Retrying in a new sandbox.', null)
  const end = () => {
    if (confirming === 'fail' && task !== null) {
      void run(fail.mutateAsync({ taskId: task.id, reason: 'marked_failed_by_user' }), 'Marked as failed.', task.id)
    } else if (taskRuns) {
      void run(cancel.mutateAsync({ taskId: task.id, reason: 'stopped_by_user' }), 'Stopped.', task.id)
    } else {
      void run(stop.mutateAsync({ sandboxId, reason: 'stopped_by_user' }), 'Stopped.', null)
    }
  }
  return (
    <>
      <DropdownMenu.Root>
        <DropdownMenu.Trigger asChild>
          <button
            type="button"
            aria-label="Sandbox actions"
            className="inline-grid size-9 shrink-0 place-items-center rounded-md text-ink-soft hover:bg-sunken hover:text-ink"
          >
            <Ellipsis size={18} aria-hidden />
          </button>
        </DropdownMenu.Trigger>
        <DropdownMenu.Portal>
          <DropdownMenu.Content
            align="end"
            sideOffset={4}
            collisionPadding={8}
            className="z-50 min-w-48 rounded-lg border border-line bg-surface p-1 shadow-xl"
          >
            <Item icon={<Columns2 size={14} aria-hidden />} onChoose={() => void navigate(paths.compare(sandboxId))}>
              Compare with…
            </Item>
            {mayRetry && (
              <Item icon={<RotateCw size={14} aria-hidden />} onChoose={() => retryTask(task.id)}>
                Retry task
              </Item>
            )}
            {(taskRuns || sandboxRuns) && (
              <Item icon={<Square size={14} aria-hidden />} isDangerous onChoose={() => setConfirming('stop')}>
                Stop
              </Item>
            )}
            {taskRuns && (
              <Item icon={<OctagonX size={14} aria-hidden />} isDangerous onChoose={() => setConfirming('fail')}>
                Mark as failed
              </Item>
            )}
          </DropdownMenu.Content>
        </DropdownMenu.Portal>
      </DropdownMenu.Root>
      <AlertDialog.Root open={confirming !== null} onOpenChange={(open) => (open ? undefined : setConfirming(null))}>
        <AlertDialog.Portal>
          <AlertDialog.Overlay className="fixed inset-0 z-40 bg-black/40" />
          <AlertDialog.Content className="fixed top-1/2 left-1/2 z-50 w-[min(28rem,calc(100vw-2rem))] -translate-1/2 rounded-xl border border-line bg-surface p-5 shadow-xl">
            <AlertDialog.Title className="text-base font-semibold">
              {confirming === 'fail' ? 'Mark as failed?' : 'Stop sandbox?'}
            </AlertDialog.Title>
            <AlertDialog.Description className="mt-1 text-sm text-ink-soft">
              “{title}” and its agent are stopped immediately. Events are kept.
              {task !== null && ' You can retry it later in a new sandbox.'}
            </AlertDialog.Description>
            <div className="mt-4 flex justify-end gap-2">
              <AlertDialog.Cancel asChild>
                <Button>Keep running</Button>
              </AlertDialog.Cancel>
              <AlertDialog.Action asChild>
                <Button variant="danger" onClick={end}>
                  {confirming === 'fail' ? 'Mark as failed' : 'Stop'}
                </Button>
              </AlertDialog.Action>
            </div>
          </AlertDialog.Content>
        </AlertDialog.Portal>
      </AlertDialog.Root>
    </>
  )
}

function Item({
  icon,
  isDangerous = false,
  onChoose,
  children,
}: {
  icon: ReactNode
  isDangerous?: boolean
  onChoose: () => void
  children: ReactNode
}) {
  return (
    <DropdownMenu.Item
      onSelect={onChoose}
      className={classes(
        'flex min-h-9 cursor-pointer items-center gap-2 rounded-md px-2 text-sm outline-none select-none',
        isDangerous ? 'text-bad data-[highlighted]:bg-bad-soft' : 'text-ink data-[highlighted]:bg-sunken',
      )}
    >
      {icon}
      {children}
    </DropdownMenu.Item>
  )
}
