import { GitMerge } from 'lucide-react'
import { AlertDialog } from 'radix-ui'
import { useId, useState } from 'react'
import type { MergeMethod, MergeTask, PullRequestOut } from '../../../api/contract'
import { Button } from '../../../ui/button'
import { shortCommit } from './pull-request-state'

/** In the order of the menu; the first is the default. */
const METHODS: readonly MergeMethod[] = ['squash', 'merge', 'rebase']

const methods: Record<MergeMethod, { name: string; effect: string }> = {
  squash: { name: 'Squash and merge', effect: 'All changes become one commit' },
  merge: { name: 'Create a merge commit', effect: 'The commits stay, and a commit joins both branches' },
  rebase: { name: 'Rebase and merge', effect: 'The commits are repeated on top of the base' },
}

/** The choice of a method, and a button that merges after a confirmation. */
export function MergeForm({
  pull,
  commit,
  onMerge,
}: {
  pull: PullRequestOut
  /** The newest commit that the page shows. */
  commit: string
  onMerge: (merge: MergeTask) => void
}) {
  const [method, setMethod] = useState<MergeMethod>('squash')
  const [confirming, setConfirming] = useState(false)
  const reason = useId()
  const hasConflicts = pull.mergeable === false
  const checksFail = pull.ci_status === 'failure'
  return (
    <div className="flex flex-wrap items-center gap-2">
      <select
        aria-label="Merge method"
        className="min-h-9 rounded-md border border-line-strong/60 bg-surface px-2.5 text-sm"
        value={method}
        onChange={({ target }) => setMethod(METHODS.find((each) => each === target.value) ?? 'squash')}
      >
        {METHODS.map((each) => (
          <option key={each} value={each}>
            {methods[each].name}
          </option>
        ))}
      </select>
      <Button
        variant={checksFail ? 'plain' : 'primary'}
        disabled={hasConflicts}
        aria-describedby={hasConflicts || checksFail ? reason : undefined}
        onClick={() => setConfirming(true)}
      >
        <GitMerge size={15} aria-hidden /> Merge…
      </Button>
      {(hasConflicts || checksFail) && (
        <p id={reason} className="text-ink-soft">
          {hasConflicts
            ? `Resolve the conflicts with ${pull.base} first: send the agent a message, or push to the branch.`
            : 'Checks fail. You can merge if you confirm it.'}
        </p>
      )}
      <Confirmation
        isOpen={confirming}
        onClose={() => setConfirming(false)}
        pull={pull}
        commit={commit}
        method={method}
        onMerge={(deleteBranch) => onMerge({ method, commit, delete_branch: deleteBranch })}
      />
    </div>
  )
}

interface ConfirmationProps {
  isOpen: boolean
  onClose: () => void
  pull: PullRequestOut
  commit: string
  method: MergeMethod
  onMerge: (deleteBranch: boolean) => void
}

function Confirmation(props: ConfirmationProps) {
  return (
    <AlertDialog.Root open={props.isOpen} onOpenChange={(open) => (open ? undefined : props.onClose())}>
      <AlertDialog.Portal>
        <AlertDialog.Overlay className="fixed inset-0 z-40 bg-black/40" />
        <AlertDialog.Content className="fixed top-1/2 left-1/2 z-50 max-h-[calc(100dvh-2rem)] w-[min(30rem,calc(100vw-2rem))] -translate-1/2 overflow-auto rounded-xl border border-line bg-surface p-5 shadow-xl">
          <Question {...props} />
        </AlertDialog.Content>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  )
}

/** Mounted while the dialog is open, so that each confirmation is a new one. */
function Question({ pull, commit, method, onMerge }: ConfirmationProps) {
  const [deleteBranch, setDeleteBranch] = useState(true)
  const [despiteChecks, setDespiteChecks] = useState(false)
  const checksFail = pull.ci_status === 'failure'
  return (
    <>
      <AlertDialog.Title className="text-base font-semibold break-words">Merge into {pull.base}?</AlertDialog.Title>
      <AlertDialog.Description className="mt-1 text-sm break-words text-ink-soft">
        The branch {pull.branch}, up to commit {shortCommit(commit)}. {methods[method].effect}. If the branch has a
        newer commit, nothing is merged.
        {pull.ci_status === 'pending' && ' Checks are still running.'}
      </AlertDialog.Description>
      <div className="mt-3 flex flex-col gap-2 text-sm">
        <Choice checked={deleteBranch} onChange={setDeleteBranch}>
          Delete the branch afterwards
        </Choice>
        {checksFail && (
          <Choice checked={despiteChecks} onChange={setDespiteChecks}>
            Merge although checks fail
          </Choice>
        )}
      </div>
      <div className="mt-4 flex justify-end gap-2">
        <AlertDialog.Cancel asChild>
          <Button>Cancel</Button>
        </AlertDialog.Cancel>
        <AlertDialog.Action asChild>
          <Button variant="primary" disabled={checksFail && !despiteChecks} onClick={() => onMerge(deleteBranch)}>
            {methods[method].name}
          </Button>
        </AlertDialog.Action>
      </div>
    </>
  )
}

function Choice({
  checked,
  onChange,
  children,
}: {
  checked: boolean
  onChange: (checked: boolean) => void
  children: string
}) {
  return (
    <label className="flex min-h-7 items-center gap-2">
      <input
        type="checkbox"
        checked={checked}
        onChange={({ target }) => onChange(target.checked)}
        className="size-4 accent-accent"
      />
      {children}
    </label>
  )
}
