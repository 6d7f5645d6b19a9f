import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { ApiError } from './http'
import { createRefresher, type Reads } from './refresher'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function fake(newest: readonly string[] = []) {
  const requests: string[] = []
  const reads: Reads = {
    task: (id) => Promise.resolve(void requests.push(`task ${id}`)),
    sandbox: (id) => Promise.resolve(void requests.push(`sandbox ${id}`)),
    newestTasks: () => Promise.resolve(void requests.push('newest tasks')).then(() => newest),
    newestSandboxes: () => Promise.resolve(void requests.push('newest sandboxes')).then(() => newest),
    tickets: () => Promise.resolve(void requests.push('tickets')),
  }
  return { requests, reads }
}

it('coalesces repeated updates of one item into one read', async () => {
  const { requests, reads } = fake()
  const refresher = createRefresher(reads)
  for (let times = 0; times < 5; times += 1) refresher.task('a')
  refresher.sandbox('b')
  refresher.tickets()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(requests).toEqual(['tickets', 'task a', 'sandbox b'])
})

it('reads an item again if it changes during the read', async () => {
  const { requests, reads } = fake()
  const refresher = createRefresher({
    ...reads,
    task: async (id) => {
      await reads.task(id)
      if (requests.length === 1) refresher.task(id)
    },
  })
  refresher.task('a')
  await vi.advanceTimersByTimeAsync(60_000)
  expect(requests).toEqual(['task a', 'task a'])
})

it('reads many items as one page and the rest one by one', async () => {
  const newest = Array.from({ length: 100 }, (_, number) => `new-${number}`)
  const { requests, reads } = fake(newest)
  const refresher = createRefresher(reads)
  for (const id of [...newest, 'old-1', 'old-2', 'old-3']) refresher.task(id)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(requests).toEqual(['newest tasks', 'task old-1', 'task old-2', 'task old-3'])
})

it('limits the request rate under many updates', async () => {
  const { requests, reads } = fake()
  const refresher = createRefresher(reads)
  for (let moment = 0; moment < 100; moment += 1) {
    for (let number = 0; number < 50; number += 1) refresher.task(`${moment}-${number}`)
    await vi.advanceTimersByTimeAsync(100)
  }
  expect(requests.length).toBeLessThanOrEqual(10 * 3 + 3)
})

it('retries failed reads with backoff, except for deleted items', async () => {
  const { requests, reads } = fake()
  let isDown = true
  const refresher = createRefresher({
    ...reads,
    task: async (id) => {
      await reads.task(id)
      if (id === 'deleted') throw new ApiError(404, 'not_found', 'No.', null, null)
      if (isDown) throw new ApiError(0, 'unreachable', 'No.', null, null)
    },
  })
  refresher.task('a')
  refresher.task('deleted')
  await vi.advanceTimersByTimeAsync(60_000)
  const whileDown = requests.filter((read) => read === 'task a').length
  expect(whileDown).toBeGreaterThan(2)
  expect(whileDown).toBeLessThan(10)
  expect(requests.filter((read) => read === 'task deleted')).toHaveLength(1)
  isDown = false
  await vi.advanceTimersByTimeAsync(60_000)
  const once = requests.length
  await vi.advanceTimersByTimeAsync(60_000)
  expect(requests).toHaveLength(once)
})

it('adds jitter to the pause after a failed round', async () => {
  const pauses = await Promise.all(
    [0, 1].map(async (jitter) => {
      const times: number[] = []
      const { reads } = fake()
      const task = () => {
        times.push(Date.now())
        return times.length === 1
          ? Promise.reject(new ApiError(0, 'unreachable', 'No.', null, null))
          : Promise.resolve(null)
      }
      createRefresher({ ...reads, task }, () => jitter).task('a')
      await vi.advanceTimersByTimeAsync(60_000)
      return times.map((time) => time - (times[0] ?? 0))
    }),
  )
  expect(pauses).toEqual([
    [0, 1_000],
    [0, 2_000],
  ])
})

it('reads at once after a reset despite failed and hanging reads', async () => {
  const { requests, reads } = fake()
  let isDown = true
  const refresher = createRefresher({
    ...reads,
    task: (id) => {
      if (!isDown) return reads.task(id)
      return id === 'hangs'
        ? new Promise(() => undefined)
        : Promise.reject(new ApiError(0, 'unreachable', 'No.', null, null))
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
  expect(requests).toEqual(['task b'])
})

it('reads nothing after a reset', async () => {
  const { requests, reads } = fake()
  const refresher = createRefresher(reads)
  refresher.task('a')
  refresher.tickets()
  refresher.reset()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(requests).toEqual([])
})
