import type { Problem } from './contract'
import { reloadToken, token } from './auth'

/** The control plane rejected a request or did not respond. `status` is 0 if there was no response. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly problem: Problem | null
  readonly retryAfterSeconds: number | null

  constructor(status: number, code: string, detail: string, problem: Problem | null, retryAfterSeconds: number | null) {
    super(detail)
    this.name = 'ApiError'
    this.status = status
    this.code = code
    this.problem = problem
    this.retryAfterSeconds = retryAfterSeconds
  }

  /** Whether the same request may succeed later: no response, timeout, rate limit or server error. */
  get isRetryable(): boolean {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500
  }
}

/** An error after 30 s is more useful to people than a spinner. */
const REQUEST_TIMEOUT_MS = 30_000

export type Query = Record<string, string | number | boolean | undefined>

export function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return send<T>('GET', withQuery(path, query), undefined, signal)
}

/** For a response that is not JSON. */
export async function getBytes(path: string, query: Query = {}, signal?: AbortSignal): Promise<Blob> {
  const response = await respond('GET', withQuery(path, query), undefined, signal)
  if (!response.ok) return read<never>(response)
  return response.blob().catch(() => {
    throw new ApiError(0, 'incomplete_response', 'The connection to the control plane was lost.', null, null)
  })
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
  return read<T>(await respond(method, path, body, signal))
}

async function respond(method: string, path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const used = token()
  const response = await attempt(method, path, body, used, signal)
  // Another tab may have signed in with a new token since this one read its own.
  return response.status === 401 && reloadToken(used) ? attempt(method, path, body, token(), signal) : response
}

async function attempt(method: string, path: string, body: unknown, bearer: string | null, signal?: AbortSignal) {
  const timeout = AbortSignal.timeout(REQUEST_TIMEOUT_MS)
  const headers = new Headers()
  if (bearer !== null) headers.set('authorization', `Bearer ${bearer}`)
  if (body !== undefined) headers.set('content-type', 'application/json')
  try {
    return await fetch(path, {
      method,
      headers,
      cache: 'no-store',
      signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  } catch (error) {
    if (signal?.aborted === true) throw error
    const detail = timeout.aborted ? 'The control plane did not respond in time.' : 'Cannot reach the control plane.'
    throw new ApiError(0, 'unreachable', detail, null, null)
  }
}

async function read<T>(response: Response): Promise<T> {
  const text = await response.text().catch(() => {
    throw new ApiError(0, 'incomplete_response', 'The connection to the control plane was lost.', null, null)
  })
  const value = parse(text)
  if (response.ok) {
    // The types are generated from `shared/contract`, which the control plane serializes.
    if (value !== undefined) return value as T
    throw new ApiError(0, 'invalid_response', 'The control plane returned an invalid response.', null, null)
  }
  const problem = isProblem(value) ? value : null
  const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN)
  throw new ApiError(
    response.status,
    problem?.code ?? `http_${response.status}`,
    problem?.detail ?? `The control plane returned HTTP ${response.status}.`,
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
