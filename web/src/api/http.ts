import type { Problem } from './contract'
import { renew, token } from './session'

/** The plane refused, or did not answer. `status` is 0 where there was no answer at all. */
export class Refused extends Error {
  readonly status: number
  readonly code: string
  readonly problem: Problem | null
  readonly retryAfterSeconds: number | null

  constructor(status: number, code: string, detail: string, problem: Problem | null, retryAfterSeconds: number | null) {
    super(detail)
    this.name = 'Refused'
    this.status = status
    this.code = code
    this.problem = problem
    this.retryAfterSeconds = retryAfterSeconds
  }

  /** Whether the same request may succeed later. */
  get mayPass(): boolean {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500
  }
}

/** No request waits for longer: whoever looks at a spinner wants to know. */
const PATIENCE_MS = 30_000

export type Query = Record<string, string | number | boolean | undefined>

export function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return send<T>('GET', withQuery(path, query), undefined, signal)
}

export function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return send<T>('POST', path, body, signal)
}

export function remove<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return send<T>('DELETE', withQuery(path, query), undefined, signal)
}

export function withQuery(path: string, query: Query): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) search.set(name, String(value))
  }
  return search.size > 0 ? `${path}?${search.toString()}` : path
}

async function send<T>(method: string, path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const used = token()
  const response = await attempt(method, path, body, used, signal)
  // Another tab may have signed in anew since this one read its token.
  if (response.status === 401 && renew(used)) return read<T>(await attempt(method, path, body, token(), signal))
  return read<T>(response)
}

async function attempt(method: string, path: string, body: unknown, bearer: string | null, signal?: AbortSignal) {
  const patience = AbortSignal.timeout(PATIENCE_MS)
  const headers = new Headers()
  if (bearer !== null) headers.set('authorization', `Bearer ${bearer}`)
  if (body !== undefined) headers.set('content-type', 'application/json')
  try {
    return await fetch(path, {
      method,
      headers,
      cache: 'no-store',
      signal: signal === undefined ? patience : AbortSignal.any([patience, signal]),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  } catch (error) {
    if (signal?.aborted === true) throw error
    const detail = patience.aborted ? 'The plane did not answer in time.' : 'The plane cannot be reached.'
    throw new Refused(0, 'unreachable', detail, null, null)
  }
}

async function read<T>(response: Response): Promise<T> {
  const text = await response.text().catch(() => {
    throw new Refused(0, 'broken_off', "The plane's answer broke off.", null, null)
  })
  const value = parse(text)
  if (response.ok) {
    // What the plane says is what `shared/contract` says: the types are generated from it.
    if (value !== undefined) return value as T
    throw new Refused(0, 'unreadable', 'The answer is not what the plane would say.', null, null)
  }
  const problem = isProblem(value) ? value : null
  const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN)
  throw new Refused(
    response.status,
    problem?.code ?? `http_${response.status}`,
    problem?.detail ?? `The plane answered with ${response.status}.`,
    problem,
    Number.isFinite(retryAfter) ? retryAfter : null,
  )
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isProblem(value: unknown): value is Problem {
  return typeof value === 'object' && value !== null && 'code' in value && 'detail' in value
}
