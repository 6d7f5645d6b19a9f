import { Columns2, Copy, ExternalLink, OctagonX, RotateCw, Square, type LucideIcon } from 'lucide-react'
import { ContextMenu, DropdownMenu } from 'radix-ui'
import type { ReactNode } from 'react'
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

/** A right click, a long press or the menu key on a card. */
export function CardContextMenu({ entries, children }: { entries: readonly Entry[]; children: ReactNode }) {
  return (
    <ContextMenu.Root>
      <ContextMenu.Trigger asChild>{children}</ContextMenu.Trigger>
      <ContextMenu.Portal>
        <ContextMenu.Content className={CONTENT} collisionPadding={8}>
          {entries.map((entry) => (
            <ContextMenu.Item key={entry.label} onSelect={entry.choose} className={itemLook(entry)}>
              <entry.icon size={14} aria-hidden />
              {entry.label}
            </ContextMenu.Item>
          ))}
        </ContextMenu.Content>
      </ContextMenu.Portal>
    </ContextMenu.Root>
  )
}

/** The same behind a button that can be seen. */
export function CardMenuButton({ entries, children }: { entries: readonly Entry[]; children: ReactNode }) {
  return (
    <DropdownMenu.Root>
      <DropdownMenu.Trigger asChild>{children}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className={CONTENT} align="end" sideOffset={4} collisionPadding={8}>
          {entries.map((entry) => (
            <DropdownMenu.Item key={entry.label} onSelect={entry.choose} className={itemLook(entry)}>
              <entry.icon size={14} aria-hidden />
              {entry.label}
            </DropdownMenu.Item>
          ))}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  )
}

/** What the menus of a card offer: only what is possible. */
export function useEntries(card: Card, act: (action: Action, card: Card) => void): Entry[] {
  const navigate = useNavigate()
  const { href, sandboxId, taskId } = card
  const entries: Entry[] = []
  if (href !== null) entries.push({ label: 'Open', icon: ExternalLink, choose: () => void navigate(href) })
  const id = sandboxId ?? taskId
  if (id !== null) entries.push({ label: 'Copy id', icon: Copy, choose: () => void copy(id) })
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
    // A page that is not served over HTTPS or from this machine has no clipboard.
    toast(`This browser does not let the page copy. The id is ${id}.`, { tone: 'bad' })
  }
}

const CONTENT = 'z-50 min-w-44 rounded-lg border border-line bg-surface p-1 shadow-xl'

const itemLook = (entry: Entry) =>
  classes(
    'flex min-h-9 cursor-pointer items-center gap-2 rounded-md px-2 text-sm outline-none select-none',
    entry.isDangerous === true
      ? 'text-bad data-[highlighted]:bg-bad-soft'
      : 'text-ink data-[highlighted]:bg-sunken',
  )
