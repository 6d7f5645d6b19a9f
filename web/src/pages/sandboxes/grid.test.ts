import { expect, it } from 'vitest'
import { destination } from './grid'

it.each([
  ['ArrowRight', 0, 1],
  ['ArrowLeft', 0, null],
  ['ArrowDown', 1, 4],
  ['ArrowUp', 4, 1],
  ['ArrowUp', 1, null],
  ['ArrowDown', 5, 6],
  ['ArrowDown', 6, null],
  ['ArrowRight', 6, null],
  ['Home', 5, 0],
  ['End', 0, 6],
  ['a', 0, null],
] as const)('%s from card %i of seven in three columns leads to %s', (key, from, to) => {
  expect(destination(key, from, 3, 7)).toBe(to)
})
