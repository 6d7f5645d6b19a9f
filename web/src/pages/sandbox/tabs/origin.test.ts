import { expect, it } from 'vitest'
import type { JsonObject } from '../../../api/contract'
import { logEvent, type LogEvent } from '../../../timeline/event'
import { originOf } from './origin'

const event = (type: string, raw: JsonObject, index: number): LogEvent =>
  logEvent({
    seq: index + 1,
    id: `e-${index}`,
    type,
    raw,
    source: 'worker',
    at: '2026-01-01T00:00:00Z',
    body: null,
  })

it('reads provider, repository and latest branch from the log', () => {
  const log: [string, JsonObject][] = [
    ['sandbox.pending', { provider: 'process' }],
    ['workspace.cloning', { repository: 'https://git.test/shop', branch: 'main' }],
    ['workspace.ready', { repository: 'https://git.test/shop', branch: 'feature/t-1' }],
    ['agent.message', { branch: 'not this', provider: 'nor this' }],
    ['sandbox.completing', {}],
  ]
  expect(originOf(log.map(([type, data], index) => event(type, data, index)))).toEqual({
    provider: 'process',
    repository: 'https://git.test/shop',
    branch: 'feature/t-1',
  })
  expect(originOf([])).toEqual({ provider: null, repository: null, branch: null })
})
