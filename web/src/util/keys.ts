import type { KeyboardEvent } from 'react'

/**
 * Whether an input method (Japanese, Chinese, …) handles this key: its Enter ends a word and must not submit.
 * Safari reports this only through the key code.
 */
export function isComposing(event: KeyboardEvent): boolean {
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  return event.nativeEvent.isComposing || event.keyCode === 229
}
