/** What a key asks a replay for. */
export type ReplayWish = 'play' | 'back' | 'forward' | 'start' | 'end' | 'nextError' | 'lastError' | 'nextEdit' | 'lastEdit'

interface Key {
  readonly key: string
  readonly ctrlKey: boolean
  readonly metaKey: boolean
  readonly altKey: boolean
}

const wishes = new Map<string, ReplayWish>([
  [' ', 'play'],
  ['ArrowLeft', 'back'],
  ['ArrowRight', 'forward'],
  ['Home', 'start'],
  ['End', 'end'],
  ['e', 'nextError'],
  ['E', 'lastError'],
  ['d', 'nextEdit'],
  ['D', 'lastEdit'],
])

export function wishOf({ key, ctrlKey, metaKey, altKey }: Key): ReplayWish | null {
  return ctrlKey || metaKey || altKey ? null : (wishes.get(key) ?? null)
}

/** Where a key means something else already. */
const TYPED = 'input, textarea, select, [contenteditable="true"], [role="menu"], [role="dialog"], [role="listbox"]'
const MOVED = '[role="tab"], [role="radio"], [role="menuitem"]'
const PRESSED = 'button, a, summary'

/** Whether a key that was pressed here is for the replay. */
export function isForReplay(target: Element | null, wish: ReplayWish): boolean {
  if (target === null) return true
  if (target.closest(TYPED) !== null) return false
  if (wish === 'play') return target.closest(PRESSED) === null
  return target.closest(MOVED) === null
}
