import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useId, useState } from 'react'
import type { TicketOut } from '../../api/contract'
import { errorMessage } from '../../api/errors'
import { post } from '../../api/http'
import { keys } from '../../api/queries'
import { Button } from '../../ui/button'
import { api } from '../../util/paths'

/** Approves or rejects a ticket. The control plane checks the permission, and its error message is shown. */
export function Approval({ ticketId }: { ticketId: string }) {
  const queries = useQueryClient()
  const [reason, setReason] = useState('')
  const [isRejecting, setRejecting] = useState(false)
  const field = useId()
  const decide = useMutation({
    mutationFn: (rejection: string | null) =>
      rejection === null
        ? post<TicketOut>(api.approveTicket(ticketId), {})
        : post<TicketOut>(api.rejectTicket(ticketId), { rejection_reason: rejection }),
    onSettled: () =>
      Promise.all([keys.ticket(ticketId), keys.lists].map((queryKey) => queries.invalidateQueries({ queryKey }))),
  })
  return (
    <div className="mt-4 flex flex-col gap-3">
      {isRejecting ? (
        <form
          className="flex flex-col gap-2"
          onSubmit={(event) => {
            event.preventDefault()
            decide.mutate(reason.trim())
          }}
        >
          <label htmlFor={field} className="text-sm font-medium">
            Reason
          </label>
          <input
            id={field}
            value={reason}
            maxLength={1_000}
            onChange={(event) => setReason(event.target.value)}
            className="min-h-9 rounded-md border border-line-strong/60 bg-page px-3 text-sm"
          />
          <div className="flex gap-2">
            <Button variant="danger" type="submit" disabled={reason.trim() === '' || decide.isPending}>
              Reject
            </Button>
            <Button variant="quiet" onClick={() => setRejecting(false)}>
              Back
            </Button>
          </div>
        </form>
      ) : (
        <div className="flex gap-2">
          <Button variant="primary" disabled={decide.isPending} onClick={() => decide.mutate(null)}>
            Approve
          </Button>
          <Button disabled={decide.isPending} onClick={() => setRejecting(true)}>
            Reject…
          </Button>
        </div>
      )}
      {decide.error !== null && (
        <p role="alert" className="text-sm text-bad">
          {errorMessage(decide.error)}
        </p>
      )}
    </div>
  )
}
