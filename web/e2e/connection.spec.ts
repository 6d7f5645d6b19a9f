import type { WebSocket, WebSocketRoute } from '@playwright/test'
import { fromPage } from '../src/timeline/event'
import { fold } from '../src/timeline/fold'
import { started, text } from './support/events'
import { RunPage } from './support/run-page'
import { expect, script, test } from './support/test'

test('killing and restarting the plane loses and duplicates no rows', async ({ page, api, plane }) => {
  const ticket = await api.ticket({ title: 'Stream', agent: script('stream') })
  if (ticket.task_id === null) throw new Error('A quick ticket has a task at once.')
  const id = await api.sandboxOf(ticket.id)
  const run = new RunPage(page)
  await run.open(id)
  await run.untilLive()
  await expect(run.feed.getByText('Line 10 of the stream.')).toBeVisible()

  await plane.kill()
  await expect(run.connection).toContainText('Reconnecting')
  await plane.restart()
  await expect(run.connection).toContainText('Live')
  // First wait until the control plane has the events, then until the page shows the newest ones.
  await api.untilSeq(id, 70)
  await expect.poll(() => newestLine(run)).toBeGreaterThanOrEqual(58)
  // A second outage shortly after the first has a longer backoff, so press Retry.
  await plane.kill()
  await expect(run.connection).toContainText(/Reconnecting|Disconnected/)
  await plane.restart()
  await run.untilLiveAgain()

  await api.untilTask(ticket.task_id, 'completed')
  await api.untilSandbox(id, 'completed')
  await expect(run.status('Completed')).toBeVisible()
  const log = await api.log(id)
  await expect
    .poll(async () => (await run.everyRow()).map(({ seq }) => seq))
    .toEqual(fold(log.map(fromPage)).rows.map(({ seq }) => seq))
  const lines = (await run.everyRow()).filter((row) => /Line \d+ of the stream/.test(row.text))
  expect(lines.map((row) => /Line (\d+) /.exec(row.text)?.[1])).toEqual(
    Array.from({ length: 120 }, (_, n) => String(n)),
  )
})

/** Number of the newest rendered line, or -1. */
async function newestLine(run: RunPage): Promise<number> {
  const texts = await run.rows.allInnerTexts()
  return Math.max(-1, ...texts.map((line) => Number(/Line (\d+) of the stream/.exec(line)?.[1] ?? -1)))
}

test('events during a disconnect are shown and not duplicated', async ({ page, api }) => {
  const sockets: WebSocketRoute[] = []
  let open = true
  await page.routeWebSocket(/\/ws\/events/, (socket) => {
    if (!open) return socket.close()
    sockets.push(socket)
    socket.connectToServer()
  })
  const worker = await api.register('A closed socket')
  await worker.emit(started(), text('Before the disconnect.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  expect(sockets).toHaveLength(1)

  open = false
  for (const socket of sockets) await socket.close()
  await expect(run.connection).toContainText('Reconnecting')
  await worker.emit(text('During the disconnect.'))
  // Without a socket the page polls, for networks that block sockets.
  await expect(run.feed.getByText('During the disconnect.')).toBeVisible()
  open = true
  await run.untilLive()
  await worker.emit(text('After the disconnect.'))
  await expect(run.feed.getByText('After the disconnect.')).toBeVisible()
  const content = (await run.everyRow()).map((row) => row.text).join('\n')
  for (const line of ['Before the disconnect.', 'During the disconnect.', 'After the disconnect.']) {
    expect(content.split(line)).toHaveLength(2)
  }
})

test('a page uses one socket', async ({ page, api }) => {
  const opened: WebSocket[] = []
  page.on('websocket', (socket) => opened.push(socket))
  const worker = await api.register('One socket')
  await worker.emit(started(), text('Hello.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  expect(opened).toHaveLength(1)
  await page.getByRole('link', { name: 'Sandboxes', exact: true }).click()
  await expect(page.getByText('One socket')).toBeVisible()
  await expect.poll(() => opened.map((socket) => socket.isClosed())).toEqual([true, false])
})

test('an unreachable plane is reported, and a retry reconnects', async ({ page, api, plane }) => {
  const worker = await api.register('Unreachable for a while')
  await worker.emit(started(), text('Still here to read.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await plane.kill()
  await expect(run.connection).toContainText(/Reconnecting|Disconnected/)
  await expect(run.feed.getByText('Still here to read.')).toBeVisible()
  await plane.restart()
  await run.untilLiveAgain()
})
