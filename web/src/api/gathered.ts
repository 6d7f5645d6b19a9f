import type { QueryClient } from '@tanstack/react-query'
import { api } from '../util/paths'
import type { SandboxList, SandboxOut, TaskList, TaskOut } from './contract'
import { get } from './http'

/** What has been read of a list that comes in pages. Nothing in the plane is ever deleted, so it only grows. */
export interface Gathered<Item> {
  readonly items: ReadonlyMap<string, Item>
  /** Whether the last page was read. */
  readonly whole: boolean
}

/** A list of the plane: where it is kept here, and how it is read. */
export interface Listed<Item> {
  key: readonly string[]
  id: (item: Item) => string
  /** A greater one is newer: answers may overtake each other. */
  version: (item: Item) => string
  read: (cursor: string | undefined, signal?: AbortSignal) => Promise<{ items: Item[]; next: string | null }>
}

/** The most that the plane gives at once. */
const PAGE = 100

export const taskList: Listed<TaskOut> = {
  key: ['gathered', 'tasks'],
  id: (task) => task.id,
  version: (task) => task.updated_at,
  read: async (cursor, signal) => {
    const page = await get<TaskList>(api.tasks, { limit: PAGE, cursor }, signal)
    return { items: page.tasks, next: page.next_cursor }
  },
}

export const sandboxList: Listed<SandboxOut> = {
  key: ['gathered', 'sandboxes'],
  id: (sandbox) => sandbox.sandbox_id,
  // A sandbox changes only together with an event.
  version: (sandbox) => String(sandbox.last_seq).padStart(16, '0'),
  read: async (cursor, signal) => {
    const page = await get<SandboxList>(api.sandboxes, { limit: PAGE, cursor }, signal)
    return { items: page.sandboxes, next: page.next_cursor }
  },
}

/** Reads all pages. Each is there to be shown as soon as it has come. */
export async function gather<Item>(client: QueryClient, listed: Listed<Item>, signal: AbortSignal) {
  let cursor: string | undefined
  for (;;) {
    const page = await listed.read(cursor, signal)
    // What a socket told meanwhile is in there too.
    const known = client.getQueryData<Gathered<Item>>(listed.key)
    const isLast = page.next === null
    const gathered: Gathered<Item> = {
      items: merge(listed, known?.items, page.items),
      whole: isLast || known?.whole === true,
    }
    if (page.next === null) return gathered
    client.setQueryData(listed.key, gathered)
    cursor = page.next
  }
}

/** Reads the newest page again, and says which ones are on it. */
export async function readNewest<Item>(client: QueryClient, listed: Listed<Item>): Promise<string[]> {
  const page = await listed.read(undefined)
  note(client, listed, page.items)
  return page.items.map(listed.id)
}

/** Puts items into a list as an answer showed them. */
export function note<Item>(client: QueryClient, listed: Listed<Item>, items: readonly Item[]) {
  client.setQueryData<Gathered<Item>>(listed.key, (known) =>
    // Before the first page is there, that page will tell of them.
    known === undefined ? undefined : { ...known, items: merge(listed, known.items, items) },
  )
}

export function merge<Item>(
  listed: Pick<Listed<Item>, 'id' | 'version'>,
  known: ReadonlyMap<string, Item> | undefined,
  read: readonly Item[],
): ReadonlyMap<string, Item> {
  const items = new Map(known)
  for (const item of read) {
    const before = items.get(listed.id(item))
    if (before === undefined || listed.version(before) <= listed.version(item)) items.set(listed.id(item), item)
  }
  return items
}
