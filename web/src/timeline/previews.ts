import { base, type RowsBuilder, type RowPath } from './rows-builder'
import type { LogEvent } from './event'
import { number, someNumber, someText } from './read'
import type { PreviewRow } from './rows'

export type PreviewEvent = LogEvent<'preview.starting' | 'preview.ready' | 'preview.failed' | 'preview.stopped'>

/** A server on a port: one row from start to stop. */
export function preview(builder: RowsBuilder, event: PreviewEvent): RowPath {
  const update = readPreview(event)
  const key = `preview:${update.port ?? ''}`
  const known = builder.paths.get(key)
  const row = known === undefined ? null : builder.changeIf(known, 'preview', event)
  const isNew = update.status === 'starting' && (row?.status === 'stopped' || row?.status === 'failed')
  if (known === undefined || row === null || isNew) {
    const path = builder.add({ ...base(event), kind: 'preview', ...update })
    builder.paths.set(key, path)
    trackRunning(builder, key, path, update.status)
    return path
  }
  trackRunning(builder, key, known, update.status)
  row.status = update.status
  row.url = update.url ?? row.url
  row.framework = update.framework ?? row.framework
  row.detail = update.detail
  return known
}

/** A sandbox that ended cannot report that its servers stopped, so their previews are stopped here. */
export function closePreviews(builder: RowsBuilder, event: LogEvent): void {
  for (const [key, path] of builder.running) {
    if (builder.at(path).kind !== 'preview') continue
    builder.running.delete(key)
    const row = builder.changeIf(path, 'preview', event)
    if (row !== null) row.status = 'stopped'
  }
}

function trackRunning(builder: RowsBuilder, key: string, path: RowPath, status: Preview['status']): void {
  if (status === 'starting' || status === 'ready') builder.running.set(key, path)
  else builder.running.delete(key)
}

type Preview = Pick<PreviewRow, 'status' | 'port' | 'url' | 'framework' | 'detail'>

export function readPreview({ type, data }: PreviewEvent): Preview {
  return {
    status: STATUSES[type],
    port: number(data, 'port'),
    url: someText<'preview.ready'>(data, 'url'),
    framework: someText<'preview.ready'>(data, 'framework'),
    detail:
      someText<'preview.failed'>(data, 'error') ??
      someText<'preview.ready'>(data, 'title') ??
      someText<'preview.starting'>(data, 'process'),
  }
}

/** The port of the sandbox's machine that leads to the server, if it is another one. */
export function readForwardedPort({ data }: PreviewEvent): number | null {
  return someNumber<'preview.ready'>(data, 'forwarded_port')
}

const STATUSES: Readonly<Record<PreviewEvent['type'], Preview['status']>> = {
  'preview.starting': 'starting',
  'preview.ready': 'ready',
  'preview.failed': 'failed',
  'preview.stopped': 'stopped',
}

export function isPreview(event: LogEvent): event is PreviewEvent {
  return Object.hasOwn(STATUSES, event.type)
}
