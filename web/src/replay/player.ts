import { type Clock, type Speed, indexAt, offsetOf, played } from './clock'

/** Where a replay stands. Pure: whoever shows it says how much time has passed. */
export interface Player {
  /** The event that has just happened. */
  readonly index: number
  /** How long ago, on the line of the clock. */
  readonly intoMs: number
  readonly playing: boolean
  readonly speed: Speed
}

export const offsetNow = (player: Player, clock: Clock) => Math.min(clock.totalMs, offsetOf(clock, player.index) + player.intoMs)

/** So much time has passed while it plays. At the end it stops. */
export function tick(player: Player, clock: Clock, elapsedMs: number): Player {
  if (!player.playing) return player
  const offset = played(clock, offsetNow(player, clock), elapsedMs, player.speed)
  const index = Math.max(player.index, indexAt(clock, offset))
  if (index >= clock.offsets.length - 1) return { ...player, index, intoMs: 0, playing: false }
  return { ...player, index, intoMs: offset - offsetOf(clock, index) }
}

export function seek(player: Player, clock: Clock, index: number): Player {
  const last = Math.max(0, clock.offsets.length - 1)
  return { ...player, index: Math.min(Math.max(0, index), last), intoMs: 0 }
}

/** To a place on the line, as somebody who drags the slider does. */
export const seekOffset = (player: Player, clock: Clock, offset: number) => seek(player, clock, indexAt(clock, offset))

/** By hand, event by event: whoever does that wants to look, so it stops. */
export const step = (player: Player, clock: Clock, by: number) => seek({ ...player, playing: false }, clock, player.index + by)

/** From the end it begins anew. */
export function toggle(player: Player, clock: Clock): Player {
  if (player.playing) return { ...player, playing: false }
  const over = player.index >= clock.offsets.length - 1
  return { ...(over ? seek(player, clock, 0) : player), playing: clock.offsets.length > 1 }
}
