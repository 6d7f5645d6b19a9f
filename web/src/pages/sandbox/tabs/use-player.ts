import { useEffect, useEffectEvent, useState } from 'react'
import { useSearchParams } from 'react-router'
import type { Clock } from '../../../replay/clock'
import { type Player, seek, tick } from '../../../replay/player'

/** How long the reader must rest at an event before the address names it. Browsers refuse an address that changes all the time. */
const REST_MS = 250

/** Rows and facts are drawn anew at each tick, and nobody reads faster. */
const TICK_MS = 40

interface Played {
  readonly player: Player
  /** It has stood where it is for a while: there is time to show more. */
  readonly isResting: boolean
  readonly setPlayer: (change: (player: Player) => Player) => void
}

/**
 * A player over a log whose first event is number `first`. The address says where it stands (`at`), and moves it when
 * somebody follows a link to another moment.
 */
export function usePlayer(clock: Clock, first: number): Played {
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
    const asked = indexOf(at, first)
    if (at !== written && asked !== null) {
      setWritten(at)
      setPlayer(seek(player, clock, asked))
    }
  }

  const { playing } = player
  const pass = useEffectEvent((elapsedMs: number) => setPlayer((before) => tick(before, clock, elapsedMs)))
  useEffect(() => {
    if (!playing) return
    let before = performance.now()
    let frame = requestAnimationFrame(function next(now) {
      if (now - before >= TICK_MS) {
        pass(now - before)
        before = now
      }
      frame = requestAnimationFrame(next)
    })
    return () => cancelAnimationFrame(frame)
  }, [playing])

  const seq = String(player.index + first)
  const [rested, setRested] = useState<string | null>(null)
  const rest = useEffectEvent(() => {
    setRested(seq)
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
    const timer = setTimeout(() => rest(), REST_MS)
    return () => clearTimeout(timer)
  }, [playing, seq])

  return { player, setPlayer, isResting: !playing && rested === seq }
}

function indexOf(at: string | null, first: number): number | null {
  const seq = Number(at)
  return at !== null && Number.isInteger(seq) ? seq - first : null
}
