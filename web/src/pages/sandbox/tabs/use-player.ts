import { useEffect, useEffectEvent, useState } from 'react'
import { useSearchParams } from 'react-router'
import type { Clock } from '../../../replay/clock'
import { type Player, seek, tick } from '../../../replay/player'

/** Delay before the URL is updated after a move. Browsers limit the rate of URL changes. */
const PAUSE_MS = 250

/** Each tick re-renders rows and facts. */
const TICK_MS = 40

interface PlayerHandle {
  readonly player: Player
  /** It has not moved for a while, so more rows can be shown. */
  readonly isPaused: boolean
  readonly setPlayer: (change: (player: Player) => Player) => void
}

/**
 * A player for a log whose first sequence number is `first`. Its position is in the URL (`at`), and navigating to
 * another position moves it.
 */
export function usePlayer(clock: Clock, first: number): PlayerHandle {
  const [parameters, setParameters] = useSearchParams()
  const at = parameters.get('at')
  const [player, setPlayer] = useState<Player>(() => {
    const still: Player = { index: 0, intoMs: 0, playing: false, speed: 1 }
    return seek(still, clock, indexOf(at, first) ?? clock.offsets.length - 1)
  })

  const [seen, setSeen] = useState(at)
  const [written, setWritten] = useState(at)
  if (at !== seen) {
    setSeen(at)
    const requested = indexOf(at, first)
    if (at !== written && requested !== null) {
      setWritten(at)
      setPlayer(seek(player, clock, requested))
    }
  }

  const { playing } = player
  const advance = useEffectEvent((elapsedMs: number) => setPlayer((before) => tick(before, clock, elapsedMs)))
  useEffect(() => {
    if (!playing) return
    let before = performance.now()
    let frame = requestAnimationFrame(function next(now) {
      if (now - before >= TICK_MS) {
        advance(now - before)
        before = now
      }
      frame = requestAnimationFrame(next)
    })
    return () => cancelAnimationFrame(frame)
  }, [playing])

  const seq = String(player.index + first)
  const [pausedAt, setPausedAt] = useState<string | null>(null)
  const onPause = useEffectEvent(() => {
    setPausedAt(seq)
    if (at === seq) return
    setWritten(seq)
    setParameters(
      (before) => {
        const after = new URLSearchParams(before)
        after.set('at', seq)
        return after
      },
      { replace: true },
    )
  })
  useEffect(() => {
    if (playing) return
    const timer = setTimeout(() => onPause(), PAUSE_MS)
    return () => clearTimeout(timer)
  }, [playing, seq])

  return { player, setPlayer, isPaused: !playing && pausedAt === seq }
}

function indexOf(at: string | null, first: number): number | null {
  const seq = Number(at)
  return at !== null && Number.isInteger(seq) ? seq - first : null
}
