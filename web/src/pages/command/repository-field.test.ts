import { expect, test } from 'vitest'
import type { RepositoryOut } from '../../api/contract'
import { footerOf, optionsOf } from './repository-field'

const repository = (name: string, is_repository = true, code_host = 'github'): RepositoryOut => ({
  repository: name,
  code_host,
  description: null,
  default_branch: null,
  is_repository,
})

const values = (typed: string, recent: string[], ...found: RepositoryOut[]) =>
  optionsOf({ repositories: found }, recent, typed).map(({ value }) => value)

test('recent repositories come first and appear once', () => {
  const recent = ['acme/shop', 'acme/docs']
  expect(values('', recent, repository('acme/docs'), repository('acme/new'))).toEqual([...recent, 'acme/new'])
  expect(values('DOC', recent, repository('acme/docs'))).toEqual(['acme/docs'])
  expect(values('acme/shop', recent, repository('acme/shop'))).toEqual(['acme/shop'])
})

test('a folder can be continued and a repository cannot', () => {
  const [folder, found] = optionsOf(
    { repositories: [repository('/home/me', false, 'local'), repository('/home/me/shop', true, 'local')] },
    [],
    '/home/',
  )
  expect(folder).toMatchObject({ value: '/home/me/', isStep: true })
  expect(found).toMatchObject({ value: '/home/me/shop', note: 'this machine' })
})

test('what could not be listed is named', () => {
  expect(footerOf({ unavailable: [], hasMore: false })).toBeUndefined()
  const failed = [{ code_host: 'github', detail: 'GitHub is unreachable.' }]
  expect(footerOf({ unavailable: failed, hasMore: true })).toBe(
    'github: GitHub is unreachable. There are more: type a part of the name.',
  )
})
