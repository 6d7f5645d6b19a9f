export type ReplayAction =
  'play' | 'back' | 'forward' | 'start' | 'end' | 'nextError' | 'lastError' | 'nextEdit' | 'lastEdit'

interface Key {
  readonly key: string
  readonly ctrlKey: boolean
  readonly metaKey: boolean
  readonly altKey: boolean
}

const actions = new Map<string, ReplayAction>([
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

export function actionOf({ key, ctrlKey, metaKey, altKey }: Key): ReplayAction | null {
  return ctrlKey || metaKey || altKey ? null : (actions.get(key) ?? null)
}

/** Elements that handle keys themselves. */
const TYPED = 'input, textarea, select, [contenteditable="true"], [role="menu"], [role="dialog"], [role="listbox"]'
const MOVED = '[role="tab"], [role="radio"], [role="menuitem"]'
const PRESSED = 'button, a, summary'

/** Whether a key press on this element is for the replay. */
export function isForReplay(target: Element | null, action: ReplayAction): boolean {
  if (target === null) return true
  if (target.closest(TYPED) !== null) return false
  if (action === 'play') return target.closest(PRESSED) === null
  return target.closest(MOVED) === null
}
