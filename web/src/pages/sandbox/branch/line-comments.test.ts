import { expect, test } from 'vitest'
import { countOf, decode, isTooLong, messageOf, openComments, written } from './line-comments'

function memory(): Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> & { texts: Map<string, string> } {
  const texts = new Map<string, string>()
  return {
    texts,
    getItem: (key) => texts.get(key) ?? null,
    setItem: (key, value) => void texts.set(key, value),
    removeItem: (key) => void texts.delete(key),
  }
}

const later = { side: 'new', line: 12, code: 'const total = 1' } as const
const earlier = { side: 'old', line: 3, code: 'let total = 0' } as const

test('all comments become one message with file, line and code', () => {
  const store = openComments('s-1', memory())
  store.add('src/sum.ts', later)
  store.add('src/sum.ts', earlier)
  store.add('README.md', { side: 'new', line: 1, code: '# Sums' })
  const [first, second] = store.state()['src/sum.ts'] ?? []
  store.write('src/sum.ts', first?.id ?? '', 'Why is this gone?')
  store.write('src/sum.ts', second?.id ?? '', ' Use a better name.\nPlease. ')
  expect(countOf(store.state())).toBe(3)
  const said = written(store.state())
  expect(countOf(said)).toBe(2)
  expect(messageOf(said)).toBe(
    [
      'Comments on the changes of your branch:',
      'src/sum.ts:3 (removed line)\n> let total = 0\nWhy is this gone?',
      'src/sum.ts:12\n> const total = 1\nUse a better name.\nPlease.',
    ].join('\n\n'),
  )
})

test('comments survive a reload until they are removed or sent', () => {
  const storage = memory()
  const store = openComments('s-1', storage)
  store.add('a.ts', later)
  const id = store.state()['a.ts']?.[0]?.id ?? ''
  store.write('a.ts', id, 'Rename it.')
  expect(openComments('s-1', storage).state()).toEqual({ 'a.ts': [{ ...later, id, text: 'Rename it.' }] })
  expect(openComments('s-2', storage).state()).toEqual({})
  store.remove('a.ts', id)
  expect(storage.texts.size).toBe(0)
  store.add('a.ts', later)
  store.clear()
  expect(openComments('s-1', storage).state()).toEqual({})
})

test('stored data of another version is skipped', () => {
  for (const text of [null, '', '7', '[]', '{"a.ts":7}', '{"a.ts":[{"id":1}]}']) expect(decode(text)).toEqual({})
})

test('a message that the plane would refuse is recognized', () => {
  const long = { 'a.ts': [{ ...later, id: 'c', text: 'x'.repeat(10_000) }] }
  expect(isTooLong(messageOf(long))).toBe(true)
  expect(isTooLong(messageOf({}))).toBe(false)
})
