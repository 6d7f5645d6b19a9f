import { Toast } from 'radix-ui'
import { useSyncExternalStore } from 'react'
import { classes } from '../util/classes'

/** A short message that disappears after a few seconds, with an optional action such as Undo. */
interface Note {
  id: number
  text: string
  tone: 'plain' | 'bad'
  action: { label: string; run: () => void } | null
}

let notes: readonly Note[] = []
let last = 0
const listeners = new Set<() => void>()

export function toast(text: string, options: { tone?: Note['tone']; action?: Note['action'] } = {}) {
  last += 1
  change([...notes.slice(-2), { id: last, text, tone: options.tone ?? 'plain', action: options.action ?? null }])
}

function change(value: readonly Note[]) {
  notes = value
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void) {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => notes)
  return (
    <Toast.Provider swipeDirection="right" duration={6_000}>
      {shown.map((note) => (
        <Toast.Root
          key={note.id}
          onOpenChange={(open) => {
            if (!open) change(notes.filter((each) => each.id !== note.id))
          }}
          className={classes(
            'flex items-center gap-3 rounded-lg border bg-surface px-4 py-3 text-sm shadow-lg',
            note.tone === 'bad' ? 'border-bad/50' : 'border-line-strong/60',
          )}
        >
          <Toast.Description className="flex-1">{note.text}</Toast.Description>
          {note.action !== null && (
            <Toast.Action altText={note.action.label} onClick={note.action.run} className="font-medium text-accent">
              {note.action.label}
            </Toast.Action>
          )}
          <Toast.Close aria-label="Close" className="text-ink-faint hover:text-ink">
            ×
          </Toast.Close>
        </Toast.Root>
      ))}
      <Toast.Viewport className="fixed right-4 bottom-4 z-50 flex w-[min(26rem,calc(100vw-2rem))] flex-col gap-2" />
    </Toast.Provider>
  )
}
