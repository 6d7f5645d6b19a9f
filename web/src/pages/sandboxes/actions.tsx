import { AlertDialog } from 'radix-ui'
import { useState, type ReactNode } from 'react'
import { errorMessage } from '../../api/errors'
import { useCancelTask, useFailTask, useRetryTask, useStopSandbox } from '../../api/queries'
import type { Refresher } from '../../api/refresher'
import { Button } from '../../ui/button'
import { toast } from '../../ui/toast'
import type { Card } from './listing'

export type Action = 'fail' | 'stop' | 'retry'

/** The actions of a card. Destructive actions require confirmation. */
export function useActions(refresher: Refresher): { act: (action: Action, card: Card) => void; dialog: ReactNode } {
  const fail = useFailTask()
  const cancel = useCancelTask()
  const stop = useStopSandbox()
  const retry = useRetryTask()
  const [pending, setPending] = useState<PendingAction | null>(null)
  const [isOpen, setOpen] = useState(false)

  const refresh = ({ taskId, sandboxId }: Card) => {
    if (taskId !== null) refresher.task(taskId)
    if (sandboxId !== null) refresher.sandbox(sandboxId)
  }
  const run = async (work: () => Promise<unknown>, card: Card, done: string, mayRetry: boolean) => {
    try {
      await work()
      toast(done, mayRetry ? { action: { label: 'Retry', run: () => act('retry', card) } } : {})
    } catch (error) {
      toast(errorMessage(error), { tone: 'bad' })
    }
    refresh(card)
  }
  const end = ({ action, card }: PendingAction) => {
    const { taskId, sandboxId } = card
    if (action === 'fail') {
      if (taskId === null) return
      void run(() => fail.mutateAsync({ taskId, reason: 'marked_failed_by_user' }), card, 'Marked as failed.', true)
    } else if (taskId !== null) {
      void run(() => cancel.mutateAsync({ taskId, reason: 'stopped_by_user' }), card, 'Stopped.', true)
    } else if (sandboxId !== null) {
      void run(() => stop.mutateAsync({ sandboxId, reason: 'stopped_by_user' }), card, 'Stopped.', false)
    }
  }
  const act = (action: Action, card: Card) => {
    if (action === 'retry') {
      const { taskId } = card
      if (taskId !== null) void run(() => retry.mutateAsync(taskId), card, 'Retry scheduled.', false)
      return
    }
    setPending({ action, card })
    setOpen(true)
  }
  const dialog = (
    <AlertDialog.Root open={isOpen} onOpenChange={setOpen}>
      {pending !== null && <ConfirmDialog pending={pending} onConfirm={() => end(pending)} />}
    </AlertDialog.Root>
  )
  return { act, dialog }
}

interface PendingAction {
  action: 'fail' | 'stop'
  card: Card
}

function ConfirmDialog({ pending: { action, card }, onConfirm }: { pending: PendingAction; onConfirm: () => void }) {
  const [title, confirmLabel] = action === 'fail' ? ['Mark as failed?', 'Mark as failed'] : ['Stop task?', 'Stop']
  return (
    <AlertDialog.Portal>
      <AlertDialog.Overlay className="fixed inset-0 z-40 bg-black/40" />
      <AlertDialog.Content className="fixed top-1/2 left-1/2 z-50 w-[min(28rem,calc(100vw-2rem))] -translate-1/2 rounded-xl border border-line bg-surface p-5 shadow-xl">
        <AlertDialog.Title className="text-base font-semibold">{title}</AlertDialog.Title>
        <AlertDialog.Description className="mt-1 text-sm text-ink-soft">
          “{card.title}” and its agent are stopped immediately. Events are kept.
          {card.taskId !== null && ' You can retry it later in a new sandbox.'}
        </AlertDialog.Description>
        <div className="mt-4 flex justify-end gap-2">
          <AlertDialog.Cancel asChild>
            <Button>Keep running</Button>
          </AlertDialog.Cancel>
          <AlertDialog.Action asChild>
            <Button variant="danger" onClick={onConfirm}>
              {confirmLabel}
            </Button>
          </AlertDialog.Action>
        </div>
      </AlertDialog.Content>
    </AlertDialog.Portal>
  )
}
