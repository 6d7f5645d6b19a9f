import { uniqueId } from '../../../util/ids'
import type { DiffLine } from '../../../ui/diff'
import { characters, MAX_CHARACTERS } from '../composer/outbox'

/** A remark about a line of the diff that is not sent to the agent yet. */
export interface LineComment extends DiffLine {
  readonly id: string
  readonly text: string
}

/** By path, in the order of the lines. */
export type LineComments = Readonly<Record<string, readonly LineComment[]>>

/** Comments that say something. */
export const written = (comments: LineComments): LineComments =>
  Object.fromEntries(
    Object.entries(comments).flatMap(([path, ofFile]) => {
      const found = ofFile.filter(({ text }) => text.trim() !== '')
      return found.length === 0 ? [] : [[path, found]]
    }),
  )

export const countOf = (comments: LineComments) =>
  Object.values(comments).reduce((total, ofFile) => total + ofFile.length, 0)

/** All comments as one message: each with its file, its line and the code that it is about. */
export function messageOf(comments: LineComments): string {
  const parts = Object.entries(comments).flatMap(([path, ofFile]) => ofFile.map((comment) => partOf(path, comment)))
  return ['Comments on the changes of your branch:', ...parts].join('\n\n')
}

function partOf(path: string, { side, line, code, text }: LineComment): string {
  const where = side === 'old' ? `${path}:${line} (removed line)` : `${path}:${line}`
  return [where, `> ${code}`, text.trim()].join('\n')
}

export const isTooLong = (message: string) => characters(message) > MAX_CHARACTERS

export function added(comments: LineComments, path: string, line: DiffLine, id: string): LineComments {
  const ofFile = [...(comments[path] ?? []), { ...line, id, text: '' }]
  return { ...comments, [path]: ofFile.sort((one, other) => one.line - other.line) }
}

export function changed(comments: LineComments, path: string, id: string, text: string): LineComments {
  const ofFile = comments[path] ?? []
  return { ...comments, [path]: ofFile.map((comment) => (comment.id === id ? { ...comment, text } : comment)) }
}

export function removed(comments: LineComments, path: string, id: string): LineComments {
  const { [path]: ofFile = [], ...others } = comments
  const rest = ofFile.filter((comment) => comment.id !== id)
  return rest.length === 0 ? others : { ...others, [path]: rest }
}

/** What is stored by this or an earlier version; invalid parts are skipped. */
export function decode(text: string | null): LineComments {
  let stored: unknown
  try {
    stored = text === null ? null : JSON.parse(text)
  } catch {
    return {}
  }
  if (typeof stored !== 'object' || stored === null) return {}
  const ofFiles = Object.entries(stored).map(([path, ofFile]): [string, LineComment[]] => [
    path,
    Array.isArray(ofFile) ? ofFile.filter(isComment) : [],
  ])
  return Object.fromEntries(ofFiles.filter(([, ofFile]) => ofFile.length > 0))
}

function isComment(value: unknown): value is LineComment {
  if (typeof value !== 'object' || value === null) return false
  const { id, side, line, code, text } = value as Record<string, unknown>
  return (
    typeof id === 'string' &&
    (side === 'old' || side === 'new') &&
    typeof line === 'number' &&
    typeof code === 'string' &&
    typeof text === 'string'
  )
}

/** The comments of a sandbox, stored in the browser until they are sent. */
export interface CommentStore {
  readonly state: () => LineComments
  readonly subscribe: (listener: () => void) => () => void
  readonly add: (path: string, line: DiffLine) => void
  readonly write: (path: string, id: string, text: string) => void
  readonly remove: (path: string, id: string) => void
  readonly clear: () => void
}

export function openComments(
  sandboxId: string,
  storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>,
): CommentStore {
  const key = `sunaba.comments.${sandboxId}`
  const listeners = new Set<() => void>()
  let state = decode(read())

  function read(): string | null {
    try {
      return storage.getItem(key)
    } catch {
      return null
    }
  }

  function change(next: LineComments) {
    state = next
    try {
      if (countOf(next) === 0) storage.removeItem(key)
      else storage.setItem(key, JSON.stringify(next))
    } catch {
      // Without local storage they last until the page is closed.
    }
    for (const listener of listeners) listener()
  }

  return {
    state: () => state,
    subscribe: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    add: (path, line) => change(added(state, path, line, uniqueId('comment'))),
    write: (path, id, text) => change(changed(state, path, id, text)),
    remove: (path, id) => change(removed(state, path, id)),
    clear: () => change({}),
  }
}

const stores = new Map<string, CommentStore>()

export function commentsOf(sandboxId: string): CommentStore {
  const known = stores.get(sandboxId)
  if (known !== undefined) return known
  const store = openComments(sandboxId, {
    // Accessed on each call: where the browser forbids local storage, evaluating `localStorage` throws.
    getItem: (key) => localStorage.getItem(key),
    setItem: (key, value) => localStorage.setItem(key, value),
    removeItem: (key) => localStorage.removeItem(key),
  })
  stores.set(sandboxId, store)
  return store
}
