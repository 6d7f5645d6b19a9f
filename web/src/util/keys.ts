import type { KeyboardEvent } from 'react'

/**
 * Whether this key belongs to an input method (Japanese, Chinese, …): its Enter ends a word, and is no wish to send.
 * Safari tells by the code only.
 */
export function composes(event: KeyboardEvent): boolean {
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  return event.nativeEvent.isComposing || event.keyCode === 229
}
