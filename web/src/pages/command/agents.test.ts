import { expect, it } from 'vitest'
import { suggestedAgents } from './agents'

it('scripts are suggested only for a control plane on this machine', () => {
  for (const host of ['localhost', '127.0.0.1', '[::1]']) expect(suggestedAgents(host)).toContain('scripted:hello')
  const remote = suggestedAgents('console.example.com')
  expect(remote).toContain('claude')
  expect(remote.filter((agent) => agent.startsWith('scripted:'))).toEqual([])
})
