import { QueryClient } from '@tanstack/react-query'
import { expect, it } from 'vitest'
import { gather, note, type Gathered, type Listed } from './gathered'

interface Item {
  id: string
  version: string
}

const item = (id: string, version = '1'): Item => ({ id, version })

function listed(pages: Item[][], onRead: (page: number) => void = () => undefined): Listed<Item> {
  return {
    key: ['gathered', 'test'],
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

const idsOf = (gathered: Gathered<Item> | undefined) => [...(gathered?.items.keys() ?? [])]
const signal = new AbortController().signal

it('shows each page as soon as it has come, and says when it is the last', async () => {
  const client = new QueryClient()
  const seen: (readonly [string[], boolean | undefined])[] = []
  const look = () => {
    const known = client.getQueryData<Gathered<Item>>(['gathered', 'test'])
    seen.push([idsOf(known), known?.whole])
  }
  // A page may be empty and have more behind it.
  const all = await gather(client, listed([[item('a')], [], [item('b')]], look), signal)
  expect(seen).toEqual([
    [[], undefined],
    [['a'], false],
    [['a'], false],
  ])
  expect([idsOf(all), all.whole]).toEqual([['a', 'b'], true])
})

it('keeps what a socket told while pages were on their way', async () => {
  const client = new QueryClient()
  const list = listed([[item('a')], [item('b', '1')]], (page) => {
    if (page === 1) note(client, list, [item('b', '2'), item('new')])
  })
  const all = await gather(client, list, signal)
  expect(idsOf(all)).toEqual(['a', 'b', 'new'])
  expect(all.items.get('b')?.version).toBe('2')
})

it('does not shrink while it is read again', async () => {
  const client = new QueryClient()
  const before: Gathered<Item> = { items: new Map([['old', item('old')]]), whole: true }
  client.setQueryData(['gathered', 'test'], before)
  const all = await gather(client, listed([[item('a')], [item('old', '2')]]), signal)
  expect(all.whole).toBe(true)
  expect(all.items.get('old')?.version).toBe('2')
})
