import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { Refused } from './http'
import { createRefresher, type Reads } from './refresher'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function fake(newest: readonly string[] = []) {
  const asked: string[] = []
  const reads: Reads = {
    task: (id) => Promise.resolve(void asked.push(`task ${id}`)),
    sandbox: (id) => Promise.resolve(void asked.push(`sandbox ${id}`)),
    newestTasks: () => Promise.resolve(void asked.push('newest tasks')).then(() => newest),
    newestSandboxes: () => Promise.resolve(void asked.push('newest sandboxes')).then(() => newest),
    tickets: () => Promise.resolve(void asked.push('tickets')),
  }
  return { asked, reads }
}

it('what is told of many times in a moment is read once', async () => {
  const { asked, reads } = fake()
  const refresher = createRefresher(reads)
  for (let times = 0; times < 5; times += 1) refresher.task('a')
  refresher.sandbox('b')
  refresher.tickets()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(asked).toEqual(['tickets', 'task a', 'sandbox b'])
})

it('what is told of while it is read is read again', async () => {
  const { asked, reads } = fake()
  const refresher = createRefresher({
    ...reads,
    task: async (id) => {
      await reads.task(id)
      if (asked.length === 1) refresher.task(id)
    },
  })
  refresher.task('a')
  await vi.advanceTimersByTimeAsync(60_000)
  expect(asked).toEqual(['task a', 'task a'])
})

it('many are read as a page, and those that are not on it one after the other', async () => {
  const newest = Array.from({ length: 100 }, (_, number) => `new-${number}`)
  const { asked, reads } = fake(newest)
  const refresher = createRefresher(reads)
  for (const id of [...newest, 'old-1', 'old-2', 'old-3']) refresher.task(id)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(asked).toEqual(['newest tasks', 'task old-1', 'task old-2', 'task old-3'])
})

it('a storm makes a few requests a second at most', async () => {
  const { asked, reads } = fake()
  const refresher = createRefresher(reads)
  for (let moment = 0; moment < 100; moment += 1) {
    for (let number = 0; number < 50; number += 1) refresher.task(`${moment}-${number}`)
    await vi.advanceTimersByTimeAsync(100)
  }
  expect(asked.length).toBeLessThanOrEqual(10 * 3 + 3)
})

it('what could not be read waits and is read later, ever more seldom; what is gone is not', async () => {
  const { asked, reads } = fake()
  let isDown = true
  const refresher = createRefresher({
    ...reads,
    task: async (id) => {
      await reads.task(id)
      if (id === 'gone') throw new Refused(404, 'not_found', 'No.', null, null)
      if (isDown) throw new Refused(0, 'unreachable', 'No.', null, null)
    },
  })
  refresher.task('a')
  refresher.task('gone')
  await vi.advanceTimersByTimeAsync(60_000)
  const whileDown = asked.filter((read) => read === 'task a').length
  expect(whileDown).toBeGreaterThan(2)
  expect(whileDown).toBeLessThan(10)
  expect(asked.filter((read) => read === 'task gone')).toHaveLength(1)
  isDown = false
  await vi.advanceTimersByTimeAsync(60_000)
  const once = asked.length
  await vi.advanceTimersByTimeAsync(60_000)
  expect(asked).toHaveLength(once)
})

it('reads at once after a reset, though an earlier read failed and another one hangs', async () => {
  const { asked, reads } = fake()
  let isDown = true
  const refresher = createRefresher({
    ...reads,
    task: (id) => {
      if (!isDown) return reads.task(id)
      return id === 'hangs' ? new Promise(() => undefined) : Promise.reject(new Refused(0, 'unreachable', 'No.', null, null))
    },
  })
  refresher.task('a')
  await vi.advanceTimersByTimeAsync(60_000)
  refresher.task('hangs')
  await vi.advanceTimersByTimeAsync(60_000)
  isDown = false
  refresher.reset()
  refresher.task('b')
  await vi.advanceTimersByTimeAsync(200)
  expect(asked).toEqual(['task b'])
})

it('reads nothing after a reset', async () => {
  const { asked, reads } = fake()
  const refresher = createRefresher(reads)
  refresher.task('a')
  refresher.tickets()
  refresher.reset()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(asked).toEqual([])
})
