import { describe, expect, it } from 'vitest'
import type { PullRequestOut } from './contract'
import { nextRead } from './branch-queries'

const pull: PullRequestOut = {
  task_id: 't',
  repository: 'a/b',
  code_host: 'github',
  branch: 'feature/count',
  base: 'main',
  number: 7,
  url: null,
  state: 'open',
  commit: null,
  mergeable: true,
  ci_status: 'success',
  checks: [],
  feedback: { rounds: 0, in_progress: [], left_to_person: [], read_at: null, next_read_at: null },
}

describe('the state of a pull request', () => {
  it('is read again only while the code host computes something', () => {
    expect(nextRead(pull)).toBe(false)
    expect(nextRead({ ...pull, ci_status: 'pending' })).toBe(30_000)
    expect(nextRead({ ...pull, ci_status: 'pending', mergeable: null })).toBe(5_000)
  })

  it.each(['merged', 'closed', null])('is not read again if it is %s', (state) => {
    expect(nextRead({ ...pull, state, mergeable: null, ci_status: 'pending' })).toBe(false)
  })
})
