import type { WebSocket, WebSocketRoute } from '@playwright/test'
import { fromPage } from '../src/timeline/event'
import { fold } from '../src/timeline/fold'
import { started, text } from './support/events'
import { RunPage } from './support/run-page'
import { expect, script, test } from './support/test'

test('a plane that is killed and started again while events stream in costs no row and doubles none', async ({
  page,
  api,
  plane,
}) => {
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
  // The plane has them first; then the page shows them, whichever of them are in sight by then.
  await api.untilSeq(id, 70)
  await expect.poll(() => newestLine(run)).toBeGreaterThanOrEqual(58)
  // So soon after the first time it waits longer before it tries again, unless the reader asks for it.
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
  expect(lines.map((row) => /Line (\d+) /.exec(row.text)?.[1])).toEqual(Array.from({ length: 120 }, (_, n) => String(n)))
})

/** The number of the newest line in the document, which follows the end: -1 while there is none. */
async function newestLine(run: RunPage): Promise<number> {
  const texts = await run.rows.allInnerTexts()
  return Math.max(-1, ...texts.map((words) => Number(/Line (\d+) of the stream/.exec(words)?.[1] ?? -1)))
}

test('what was told while the socket was cut is there when it is back', async ({ page, api }) => {
  const sockets: WebSocketRoute[] = []
  let open = true
  await page.routeWebSocket(/\/ws\/events/, (socket) => {
    if (!open) return socket.close()
    sockets.push(socket)
    socket.connectToServer()
  })
  const worker = await api.register('A cut socket')
  await worker.tell(started(), text('Before the cut.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  expect(sockets).toHaveLength(1)

  open = false
  for (const socket of sockets) await socket.close()
  await expect(run.connection).toContainText('Reconnecting')
  await worker.tell(text('While it was cut.'))
  // Without a socket it asks, so that nobody waits for a network that lets only requests through.
  await expect(run.feed.getByText('While it was cut.')).toBeVisible()
  open = true
  await run.untilLive()
  await worker.tell(text('After the cut.'))
  await expect(run.feed.getByText('After the cut.')).toBeVisible()
  const said = (await run.everyRow()).map((row) => row.text).join('\n')
  for (const words of ['Before the cut.', 'While it was cut.', 'After the cut.']) {
    expect(said.split(words)).toHaveLength(2)
  }
})

test('one socket serves a page', async ({ page, api }) => {
  const opened: WebSocket[] = []
  page.on('websocket', (socket) => opened.push(socket))
  const worker = await api.register('One socket')
  await worker.tell(started(), text('Hello.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  expect(opened).toHaveLength(1)
  await page.getByRole('link', { name: 'Sandboxes', exact: true }).click()
  await expect(page.getByText('One socket')).toBeVisible()
  await expect.poll(() => opened.map((socket) => socket.isClosed())).toEqual([true, false])
})

test('a plane that cannot be reached is said in words, and a retry finds it', async ({ page, api, plane }) => {
  const worker = await api.register('Gone for a while')
  await worker.tell(started(), text('Still here to read.'))
  const run = new RunPage(page)
  await run.open(worker.id)
  await run.untilLive()
  await plane.kill()
  await expect(run.connection).toContainText(/Reconnecting|Disconnected/)
  await expect(run.feed.getByText('Still here to read.')).toBeVisible()
  await plane.restart()
  await run.untilLiveAgain()
})
