import { Refused } from './http'

/**
 * Reads again what sockets tell of: single items while they are few, the newest page when many change at once, and
 * never more than a few requests a second, however busy the plane is.
 */
export interface Refresher {
  task(id: string): void
  sandbox(id: string): void
  tickets(): void
  /** Forgets what waits, what is being read and what failed: it starts afresh with what it is told of next. */
  reset(): void
}

export interface Reads {
  task: (id: string) => Promise<unknown>
  sandbox: (id: string) => Promise<unknown>
  /** Gives back which ones it read. */
  newestTasks: () => Promise<readonly string[]>
  newestSandboxes: () => Promise<readonly string[]>
  tickets: () => Promise<unknown>
}

/** Frames about one thing come in twos and threes: a moment gathers them. */
const GATHER_MS = 150
/** Between two rounds; longer and longer while the plane does not answer. */
const ROUND_MS = 1_000
const LONGEST_ROUND_MS = 30_000
/** Requests of a round, for each of the two kinds. */
const AT_ONCE = 2
/** From here on a page costs less than one request for each. */
const MANY = 6

export function createRefresher(reads: Reads): Refresher {
  const tasks = new Set<string>()
  const sandboxes = new Set<string>()
  let ticketsWait = false
  let timer: ReturnType<typeof setTimeout> | undefined
  /** The round that is under way. */
  let reading: symbol | null = null
  let failures = 0

  const isSomethingLeft = () => tasks.size > 0 || sandboxes.size > 0 || ticketsWait
  const schedule = (delay: number) => {
    if (timer === undefined && reading === null) timer = setTimeout(() => void round(), delay)
  }
  const round = async () => {
    timer = undefined
    const mine = Symbol('round')
    reading = mine
    if (ticketsWait) void reads.tickets()
    ticketsWait = false
    const answered = await Promise.all([
      readSome(tasks, reads.newestTasks, reads.task),
      readSome(sandboxes, reads.newestSandboxes, reads.sandbox),
    ])
    if (reading !== mine) return
    reading = null
    failures = answered.includes(false) ? failures + 1 : 0
    if (isSomethingLeft()) schedule(Math.min(ROUND_MS * 2 ** failures, LONGEST_ROUND_MS))
  }
  const add = (waiting: Set<string>, id: string) => {
    waiting.add(id)
    schedule(GATHER_MS)
  }
  return {
    task: (id) => add(tasks, id),
    sandbox: (id) => add(sandboxes, id),
    tickets() {
      ticketsWait = true
      schedule(GATHER_MS)
    },
    reset() {
      clearTimeout(timer)
      timer = undefined
      reading = null
      failures = 0
      ticketsWait = false
      tasks.clear()
      sandboxes.clear()
    },
  }
}

/** Reads some of what waits. Says whether the plane answered; what it did not answer waits on. */
async function readSome(
  waiting: Set<string>,
  readNewest: () => Promise<readonly string[]>,
  readOne: (id: string) => Promise<unknown>,
): Promise<boolean> {
  if (waiting.size >= MANY) {
    const asked = take(waiting, waiting.size)
    try {
      const found = new Set(await readNewest())
      for (const id of asked) if (!found.has(id)) waiting.add(id)
    } catch (error) {
      if (mayPass(error)) for (const id of asked) waiting.add(id)
      return false
    }
  }
  // What is too old for the newest page goes one by one.
  const answers = await Promise.all(
    take(waiting, AT_ONCE).map(async (id) => {
      try {
        await readOne(id)
        return true
      } catch (error) {
        if (mayPass(error)) waiting.add(id)
        return !mayPass(error)
      }
    }),
  )
  return !answers.includes(false)
}

/** Taken out before it is read: who is told of during the read has to be read again. */
function take(waiting: Set<string>, most: number): string[] {
  const ids = [...waiting].slice(0, most)
  for (const id of ids) waiting.delete(id)
  return ids
}

const mayPass = (error: unknown) => error instanceof Refused && error.mayPass
