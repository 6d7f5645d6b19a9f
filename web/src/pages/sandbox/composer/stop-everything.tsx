import { CircleStop } from 'lucide-react'
import { useState } from 'react'
import { Button } from '../../../ui/button'

/** Asks once, where it stands: a slip of the hand must not end hours of work. */
export function StopEverything({ disabled, onStop }: { disabled: boolean; onStop: () => void }) {
  const [asks, setAsks] = useState(false)
  if (!asks || disabled) {
    return (
      <Button
        look="quiet"
        disabled={disabled}
        title="Stops the turn and drops what waits behind it. The agent then waits for you."
        onClick={() => setAsks(true)}
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
        if (event.key === 'Escape') setAsks(false)
      }}
    >
      <Button
        look="danger"
        autoFocus
        onClick={() => {
          setAsks(false)
          onStop()
        }}
      >
        <CircleStop size={15} aria-hidden /> Yes, stop everything
      </Button>
      <Button look="quiet" onClick={() => setAsks(false)}>
        No
      </Button>
    </span>
  )
}
