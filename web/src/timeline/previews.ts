import { base, type Draft, type Place } from './draft'
import type { EventType, LogEvent } from './event'
import { firstText, number } from './read'
import type { PreviewRow } from './rows'

/** A server on a port: one row from start to stop. */
export function preview(draft: Draft, event: LogEvent): Place {
  const update = readPreview(event)
  const key = `preview:${update.port ?? ''}`
  const known = draft.places.get(key)
  const row = known === undefined ? null : draft.changeIf(known, 'preview', event)
  const isNew = update.status === 'starting' && (row?.status === 'stopped' || row?.status === 'failed')
  if (known === undefined || row === null || isNew) {
    const place = draft.add({ ...base(event), kind: 'preview', ...update })
    draft.places.set(key, place)
    trackRunning(draft, key, place, update.status)
    return place
  }
  trackRunning(draft, key, known, update.status)
  row.status = update.status
  row.url = update.url ?? row.url
  row.framework = update.framework ?? row.framework
  row.detail = update.detail
  return known
}

/** A sandbox that ended cannot report that its servers stopped, so their previews are stopped here. */
export function closePreviews(draft: Draft, event: LogEvent): void {
  for (const [key, place] of draft.running) {
    if (draft.at(place).kind !== 'preview') continue
    draft.running.delete(key)
    const row = draft.changeIf(place, 'preview', event)
    if (row !== null) row.status = 'stopped'
  }
}

function trackRunning(draft: Draft, key: string, place: Place, status: Preview['status']): void {
  if (status === 'starting' || status === 'ready') draft.running.set(key, place)
  else draft.running.delete(key)
}

type Preview = Pick<PreviewRow, 'status' | 'port' | 'url' | 'framework' | 'detail'>

export function readPreview({ type, data }: LogEvent): Preview {
  return {
    status: STATUSES[type] ?? 'starting',
    port: number(data, 'port'),
    url: firstText(data, 'url', 'preview_url'),
    framework: firstText(data, 'framework'),
    detail: firstText(data, 'error', 'title', 'process'),
  }
}

const STATUSES: Readonly<Partial<Record<EventType, Preview['status']>>> = {
  'preview.starting': 'starting',
  'preview.ready': 'ready',
  'preview.failed': 'failed',
  'preview.stopped': 'stopped',
}
