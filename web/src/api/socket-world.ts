import { get, type Query } from './http'
import { onToken, renew, token } from './session'

/** What live data touches outside of itself: time, chance, sockets, pages, the browser's state. Tests make their own. */
export interface World {
  now(): number
  random(): number
  /** Runs something later, unless the returned function is called before. */
  later(run: () => void, milliseconds: number): () => void
  /** Runs something with the next frame that is painted; soon, where nothing is painted. */
  paint(run: () => void): () => void
  socket(url: string): Socket
  get<T>(path: string, query: Query, signal: AbortSignal): Promise<T>
  token(): string | null
  renew(refused: string | null): boolean
  onToken(listener: () => void): () => void
  isOnline(): boolean
  /** The browser is online again, or somebody looks at the page again. */
  onWake(listener: () => void): () => void
  /** The browser says that it is offline. */
  onOffline(listener: () => void): () => void
}

/** As much of a `WebSocket` as is used. */
export interface Socket {
  onopen: (() => void) | null
  onmessage: ((message: { data: unknown }) => void) | null
  onclose: (() => void) | null
  send(text: string): void
  close(): void
}

/** How soon a hidden page hears what came: nothing is painted there. */
const HIDDEN_MS = 50

export const browser: World = {
  now: () => Date.now(),
  random: () => Math.random(),
  later: (run, milliseconds) => {
    const timer = setTimeout(run, milliseconds)
    return () => clearTimeout(timer)
  },
  paint: (run) => {
    // Whoever hides the page between asking for a frame and getting it would wait until it is shown again.
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
  renew,
  onToken,
  isOnline,
  onWake: (listener) => {
    const seen = () => {
      if (!document.hidden) listener()
    }
    addEventListener('online', listener)
    // A page that comes back out of the browser's memory has lost its sockets without a word.
    addEventListener('pageshow', listener)
    document.addEventListener('visibilitychange', seen)
    return () => {
      removeEventListener('online', listener)
      removeEventListener('pageshow', listener)
      document.removeEventListener('visibilitychange', seen)
    }
  },
  onOffline: (listener) => {
    const cut = () => {
      if (!isOnline()) listener()
    }
    addEventListener('offline', cut)
    return () => removeEventListener('offline', cut)
  },
}

/** A laptop without a network still reaches the plane that runs on it. */
function isOnline() {
  return navigator.onLine || ['localhost', '127.0.0.1', '[::1]'].includes(location.hostname)
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
