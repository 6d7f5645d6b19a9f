import { Columns2, Copy, ExternalLink, OctagonX, RotateCw, Square, type LucideIcon } from 'lucide-react'
import { ContextMenu } from 'radix-ui'
import { useState, type ReactNode } from 'react'
import { useNavigate } from 'react-router'
import { toast } from '../../ui/toast'
import { classes } from '../../util/classes'
import { paths } from '../../util/paths'
import type { Action } from './actions'
import type { Card } from './listing'

interface Entry {
  label: string
  icon: LucideIcon
  isDangerous?: boolean
  choose: () => void
}

/**
 * The menu of the card under a right click, a long press, the menu key or `openMenu`. All cards share one menu: one per
 * card would cost more than the cards themselves and make long lists scroll slowly.
 */
export function CardMenu({
  cardAt,
  act,
  children,
}: {
  cardAt: (target: EventTarget) => Card | null
  act: (action: Action, card: Card) => void
  children: ReactNode
}) {
  const [card, setCard] = useState<Card | null>(null)
  return (
    // Not modal: a dialog that opens while the menu closes would inherit a page that ignores clicks.
    <ContextMenu.Root modal={false}>
      <ContextMenu.Trigger
        asChild
        onPointerDownCapture={(event) => setCard(cardAt(event.target))}
        onContextMenuCapture={(event) => {
          const found = cardAt(event.target)
          setCard(found)
          // Between cards, leave the browser's own menu.
          if (found === null) event.stopPropagation()
        }}
      >
        {children}
      </ContextMenu.Trigger>
      <ContextMenu.Portal>
        <ContextMenu.Content
          className="z-50 min-w-44 rounded-lg border border-line bg-surface p-1 shadow-xl"
          collisionPadding={8}
        >
          {card !== null && <Entries card={card} act={act} />}
        </ContextMenu.Content>
      </ContextMenu.Portal>
    </ContextMenu.Root>
  )
}

/** Opens the menu below a button, as a right click there would. */
export function openMenu(button: HTMLElement) {
  const { left, bottom } = button.getBoundingClientRect()
  button.dispatchEvent(
    new MouseEvent('contextmenu', { bubbles: true, cancelable: true, clientX: left, clientY: bottom }),
  )
}

function Entries({ card, act }: { card: Card; act: (action: Action, card: Card) => void }) {
  return useEntries(card, act).map((entry) => (
    <ContextMenu.Item key={entry.label} onSelect={entry.choose} className={itemClass(entry)}>
      <entry.icon size={14} aria-hidden />
      {entry.label}
    </ContextMenu.Item>
  ))
}

/** The menu entries that are possible for a card. */
function useEntries(card: Card, act: (action: Action, card: Card) => void): Entry[] {
  const navigate = useNavigate()
  const { href, sandboxId, taskId } = card
  const entries: Entry[] = []
  if (href !== null) entries.push({ label: 'Open', icon: ExternalLink, choose: () => void navigate(href) })
  const id = sandboxId ?? taskId
  if (id !== null) entries.push({ label: 'Copy ID', icon: Copy, choose: () => void copy(id) })
  if (sandboxId !== null) {
    entries.push({ label: 'Compare with…', icon: Columns2, choose: () => void navigate(paths.compare(sandboxId)) })
  }
  if (card.can.retry) entries.push({ label: 'Retry', icon: RotateCw, choose: () => act('retry', card) })
  if (card.can.stop) entries.push({ label: 'Stop', icon: Square, isDangerous: true, choose: () => act('stop', card) })
  if (card.can.fail) {
    entries.push({ label: 'Mark as failed', icon: OctagonX, isDangerous: true, choose: () => act('fail', card) })
  }
  return entries
}

async function copy(id: string) {
  try {
    await navigator.clipboard.writeText(id)
    toast(`Copied ${id}.`)
  } catch {
    // The clipboard API exists only in secure contexts (HTTPS or localhost).
    toast(`Copying is not available in this browser. ID: ${id}`, { tone: 'bad' })
  }
}

const itemClass = (entry: Entry) =>
  classes(
    'flex min-h-9 cursor-pointer items-center gap-2 rounded-md px-2 text-sm outline-none select-none',
    entry.isDangerous === true ? 'text-bad data-[highlighted]:bg-bad-soft' : 'text-ink data-[highlighted]:bg-sunken',
  )
