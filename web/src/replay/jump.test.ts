import { expect, it } from 'vitest'
import { jump } from './jump'

const marks = [
  { seq: 2, kind: 'edit' },
  { seq: 5, kind: 'error' },
  { seq: 9, kind: 'edit' },
]

it('jumps to the nearest other mark of a kind in a direction', () => {
  expect(jump(marks, 'edit', 2, 'after')).toBe(9)
  expect(jump(marks, 'edit', 9, 'before')).toBe(2)
  expect(jump(marks, 'error', 9, 'before')).toBe(5)
  expect(jump(marks, 'error', 5, 'after')).toBeNull()
  expect(jump(marks, 'edit', 1, 'before')).toBeNull()
})
