import { QueryClient } from '@tanstack/react-query'
import { expect, it } from 'vitest'
import { loadPages, mergeItems, type ListSource, type LoadedList } from './paged-list'

interface Item {
  id: string
  version: string
}

const item = (id: string, version = '1'): Item => ({ id, version })

function listed(pages: Item[][], onRead: (page: number) => void = () => undefined): ListSource<Item> {
  return {
    key: ['paged-list', 'test'],
    id: ({ id }) => id,
    version: ({ version }) => version,
    read: (cursor) => {
      const page = Number(cursor ?? '0')
      onRead(page)
      const next = page + 1 < pages.length ? String(page + 1) : null
      return Promise.resolve({ items: pages[page] ?? [], next })
    },
  }
}

const idsOf = (gathered: LoadedList<Item> | undefined) => [...(gathered?.items.keys() ?? [])]
const signal = new AbortController().signal

it('publishes each page as it arrives and marks the list complete after the last', async () => {
  const client = new QueryClient()
  const seen: (readonly [string[], boolean | undefined])[] = []
  const record = () => {
    const known = client.getQueryData<LoadedList<Item>>(['paged-list', 'test'])
    seen.push([idsOf(known), known?.complete])
  }
  // A page may be empty although more pages follow.
  const all = await loadPages(client, listed([[item('a')], [], [item('b')]], record), signal)
  expect(seen).toEqual([
    [[], undefined],
    [['a'], false],
    [['a'], false],
  ])
  expect([idsOf(all), all.complete]).toEqual([['a', 'b'], true])
})

it('keeps newer items that arrived while pages were loading', async () => {
  const client = new QueryClient()
  const list = listed([[item('a')], [item('b', '1')]], (page) => {
    if (page === 1) mergeItems(client, list, [item('b', '2'), item('new')])
  })
  const all = await loadPages(client, list, signal)
  expect(idsOf(all)).toEqual(['a', 'b', 'new'])
  expect(all.items.get('b')?.version).toBe('2')
})

it('keeps known items while the list is reloaded', async () => {
  const client = new QueryClient()
  const before: LoadedList<Item> = { items: new Map([['old', item('old')]]), complete: true }
  client.setQueryData(['paged-list', 'test'], before)
  const all = await loadPages(client, listed([[item('a')], [item('old', '2')]]), signal)
  expect(all.complete).toBe(true)
  expect(all.items.get('old')?.version).toBe('2')
})
