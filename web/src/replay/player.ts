import { type Clock, type Speed, indexAt, offsetOf, played } from './clock'

/** State of a replay. Pure: the caller supplies the elapsed time. */
export interface Player {
  /** Index of the current event. */
  readonly index: number
  /** Time since that event on the replay clock. */
  readonly intoMs: number
  readonly playing: boolean
  readonly speed: Speed
}

export const offsetNow = (player: Player, clock: Clock) =>
  Math.min(clock.totalMs, offsetOf(clock, player.index) + player.intoMs)

/** Advances a playing replay. Stops at the end. */
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

export const seekOffset = (player: Player, clock: Clock, offset: number) => seek(player, clock, indexAt(clock, offset))

/** Moves by single events and pauses. */
export const step = (player: Player, clock: Clock, by: number) =>
  seek({ ...player, playing: false }, clock, player.index + by)

/** Plays or pauses; at the end it restarts. */
export function toggle(player: Player, clock: Clock): Player {
  if (player.playing) return { ...player, playing: false }
  const ended = player.index >= clock.offsets.length - 1
  return { ...(ended ? seek(player, clock, 0) : player), playing: clock.offsets.length > 1 }
}
