import { isThisMachine } from '../util/hosts'
import { get, type Query } from './http'
import { onToken, reloadToken, token } from './auth'

/** External dependencies of live data: time, randomness, sockets, HTTP, browser state. Tests provide their own. */
export interface Environment {
  now(): number
  random(): number
  /** Runs a callback after a delay. Returns a function that cancels it. */
  later(run: () => void, milliseconds: number): () => void
  /** Runs a callback with the next animation frame, or soon if the page is hidden. Returns a function that cancels it. */
  paint(run: () => void): () => void
  socket(url: string): Socket
  get<T>(path: string, query: Query, signal: AbortSignal): Promise<T>
  token(): string | null
  reloadToken(rejected: string | null): boolean
  onToken(listener: () => void): () => void
  isOnline(): boolean
  /** The browser is back online, or the page became visible again. */
  onWake(listener: () => void): () => void
  /** The browser went offline. */
  onOffline(listener: () => void): () => void
}

/** The part of `WebSocket` that is used. */
export interface Socket {
  onopen: (() => void) | null
  onmessage: ((message: { data: unknown }) => void) | null
  onclose: (() => void) | null
  send(text: string): void
  close(): void
}

/** Update delay for a hidden page, where no animation frames run. */
const HIDDEN_MS = 50

export const browserEnvironment: Environment = {
  now: () => Date.now(),
  random: () => Math.random(),
  later: (run, milliseconds) => {
    const timer = setTimeout(run, milliseconds)
    return () => clearTimeout(timer)
  },
  paint: (run) => {
    // The page may be hidden before the animation frame runs, so the timer is always set too.
    let done = false
    const once = () => {
      if (done) return
      done = true
      cancel()
      run()
    }
    const frame = document.hidden ? null : requestAnimationFrame(once)
    const timer = setTimeout(once, HIDDEN_MS)
    const cancel = () => {
      done = true
      if (frame !== null) cancelAnimationFrame(frame)
      clearTimeout(timer)
    }
    return cancel
  },
  socket: (path) => {
    const url = new URL(path, location.href)
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
    return adapt(new WebSocket(url))
  },
  get,
  token,
  reloadToken,
  onToken,
  isOnline,
  onWake: (listener) => {
    const onVisibilityChange = () => {
      if (!document.hidden) listener()
    }
    addEventListener('online', listener)
    // A page restored from the back/forward cache has lost its sockets without a close event.
    addEventListener('pageshow', listener)
    document.addEventListener('visibilitychange', onVisibilityChange)
    return () => {
      removeEventListener('online', listener)
      removeEventListener('pageshow', listener)
      document.removeEventListener('visibilitychange', onVisibilityChange)
    }
  },
  onOffline: (listener) => {
    const onOffline = () => {
      if (!isOnline()) listener()
    }
    addEventListener('offline', onOffline)
    return () => removeEventListener('offline', onOffline)
  },
}

/** A laptop without a network still reaches a control plane that runs on it. */
function isOnline() {
  return navigator.onLine || isThisMachine(location.hostname)
}

function adapt(real: WebSocket): Socket {
  const socket: Socket = {
    onopen: null,
    onmessage: null,
    onclose: null,
    send: (text) => {
      if (real.readyState === WebSocket.OPEN) real.send(text)
    },
    close: () => real.close(),
  }
  real.onopen = () => socket.onopen?.()
  real.onmessage = (message: MessageEvent<unknown>) => socket.onmessage?.({ data: message.data })
  real.onclose = () => socket.onclose?.()
  return socket
}
