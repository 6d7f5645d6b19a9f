import type { QueryClient } from '@tanstack/react-query'
import { api } from '../util/paths'
import type { SandboxList, SandboxOut, TaskList, TaskOut } from './contract'
import { get } from './http'

/** The loaded part of a paginated list. The control plane never deletes items, so it only grows. */
export interface LoadedList<Item> {
  readonly items: ReadonlyMap<string, Item>
  /** Whether the last page has been loaded. */
  readonly complete: boolean
}

/** A paginated list of the API: its cache key and how it is read. */
export interface ListSource<Item> {
  key: readonly string[]
  id: (item: Item) => string
  /** Greater is newer. Responses may arrive out of order. */
  version: (item: Item) => string
  read: (cursor: string | undefined, signal?: AbortSignal) => Promise<{ items: Item[]; next: string | null }>
}

/** Largest page size the API allows. */
const PAGE = 100

export const taskList: ListSource<TaskOut> = {
  key: ['paged-list', 'tasks'],
  id: (task) => task.id,
  version: (task) => task.updated_at,
  read: async (cursor, signal) => {
    const page = await get<TaskList>(api.tasks, { limit: PAGE, cursor }, signal)
    return { items: page.tasks, next: page.next_cursor }
  },
}

export const sandboxList: ListSource<SandboxOut> = {
  key: ['paged-list', 'sandboxes'],
  id: (sandbox) => sandbox.sandbox_id,
  // A sandbox changes only together with an event, so its last sequence number is its version.
  version: (sandbox) => String(sandbox.last_seq).padStart(16, '0'),
  read: async (cursor, signal) => {
    const page = await get<SandboxList>(api.sandboxes, { limit: PAGE, cursor }, signal)
    return { items: page.sandboxes, next: page.next_cursor }
  },
}

/** Loads all pages and publishes each in the cache as it arrives. */
export async function loadPages<Item>(client: QueryClient, source: ListSource<Item>, signal: AbortSignal) {
  let cursor: string | undefined
  for (;;) {
    const page = await source.read(cursor, signal)
    // Includes updates from the socket that arrived meanwhile.
    const known = client.getQueryData<LoadedList<Item>>(source.key)
    const isLast = page.next === null
    const loaded: LoadedList<Item> = {
      items: merge(source, known?.items, page.items),
      complete: isLast || known?.complete === true,
    }
    if (page.next === null) return loaded
    client.setQueryData(source.key, loaded)
    cursor = page.next
  }
}

/** Reloads the newest page and returns the ids on it. */
export async function readNewest<Item>(client: QueryClient, source: ListSource<Item>): Promise<string[]> {
  const page = await source.read(undefined)
  mergeItems(client, source, page.items)
  return page.items.map(source.id)
}

/** Merges items into the cached list. */
export function mergeItems<Item>(client: QueryClient, source: ListSource<Item>, items: readonly Item[]) {
  client.setQueryData<LoadedList<Item>>(source.key, (known) =>
    // Before the first page is loaded there is nothing to merge into; that page will contain them.
    known === undefined ? undefined : { ...known, items: merge(source, known.items, items) },
  )
}

export function merge<Item>(
  source: Pick<ListSource<Item>, 'id' | 'version'>,
  known: ReadonlyMap<string, Item> | undefined,
  read: readonly Item[],
): ReadonlyMap<string, Item> {
  const items = new Map(known)
  for (const item of read) {
    const before = items.get(source.id(item))
    if (before === undefined || source.version(before) <= source.version(item)) items.set(source.id(item), item)
  }
  return items
}
