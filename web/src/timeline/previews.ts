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
    note(draft, key, place, told.status)
    return place
  }
  note(draft, key, known, told.status)
  row.status = told.status
  row.url = told.url ?? row.url
  row.framework = told.framework ?? row.framework
  row.detail = told.detail
  return known
}

/** Nobody listens in a sandbox that is gone, and nobody is left to say so. */
export function closePreviews(draft: Draft, event: LogEvent): void {
  for (const [key, place] of draft.running) {
    if (draft.at(place).kind !== 'preview') continue
    draft.running.delete(key)
    const row = draft.changeIf(place, 'preview', event)
    if (row !== null) row.status = 'stopped'
  }
}

/** Whether this event says that the sandbox is gone, with all that listened in it. */
export const endsPreviews = ({ type }: LogEvent) => ENDS.has(type)

const ENDS: ReadonlySet<string> = new Set([
  'sandbox.completed',
  'sandbox.released',
  'sandbox.failed',
  'sandbox.terminated',
  'sandbox.terminated_idle',
])

function note(draft: Draft, key: string, place: Place, status: Preview['status']): void {
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

const STATUSES: Readonly<Record<string, Preview['status']>> = {
  'preview.starting': 'starting',
  'preview.ready': 'ready',
  'preview.failed': 'failed',
  'preview.stopped': 'stopped',
}
