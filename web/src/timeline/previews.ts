import { base, type Draft, type Place } from './draft'
import type { LogEvent } from './event'
import { firstText, number } from './read'
import type { PreviewRow } from './rows'

/** What listens at a port: one row from its start to its end. */
export function preview(draft: Draft, event: LogEvent): Place {
  const told = readPreview(event)
  const key = `preview:${told.port ?? ''}`
  const known = draft.places.get(key)
  const row = known === undefined ? null : draft.changeIf(known, 'preview', event)
  const isNew = told.status === 'starting' && (row?.status === 'stopped' || row?.status === 'failed')
  if (known === undefined || row === null || isNew) {
    const place = draft.add({ ...base(event), kind: 'preview', ...told })
    draft.places.set(key, place)
    return place
  }
  row.status = told.status
  row.url = told.url ?? row.url
  row.framework = told.framework ?? row.framework
  row.detail = told.detail
  return known
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

const STATUSES: Readonly<Record<string, Preview['status']>> = {
  'preview.starting': 'starting',
  'preview.ready': 'ready',
  'preview.failed': 'failed',
  'preview.stopped': 'stopped',
}
