import { CircleStop } from 'lucide-react'
import { useState } from 'react'
import { Button } from '../../../ui/button'

/** Requires an inline confirmation: an accidental click must not end hours of work. */
export function StopEverything({ disabled, onStop }: { disabled: boolean; onStop: () => void }) {
  const [confirming, setConfirming] = useState(false)
  if (!confirming || disabled) {
    return (
      <Button
        variant="quiet"
        disabled={disabled}
        title="Stops the current turn and cancels queued messages. The agent then waits for you."
        onClick={() => setConfirming(true)}
      >
        <CircleStop size={15} aria-hidden /> Stop everything
      </Button>
    )
  }
  return (
    <span
      role="group"
      aria-label="Stop everything?"
      className="flex items-center gap-2"
      onKeyDown={(event) => {
        if (event.key === 'Escape') setConfirming(false)
      }}
    >
      <Button
        variant="danger"
        autoFocus
        onClick={() => {
          setConfirming(false)
          onStop()
        }}
      >
        <CircleStop size={15} aria-hidden /> Stop everything now
      </Button>
      <Button variant="quiet" onClick={() => setConfirming(false)}>
        Cancel
      </Button>
    </span>
  )
}
