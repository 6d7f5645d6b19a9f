import { expect, it } from 'vitest'
import { principalName } from './principals'

it.each([
  ['user', 'ada', 'ada'],
  ['operator', null, 'Operator'],
  ['operator', 'local', 'Operator'],
  ['operator', 'night-shift', 'Operator night-shift'],
  ['worker', 's-1', 's-1'],
])('names a %s %s', (kind, id, name) => {
  expect(principalName({ kind, id })).toBe(name)
})
