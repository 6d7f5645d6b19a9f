import { CircleAlert, FilePen, Link2, Pause, Play, SkipBack, SkipForward, StepBack, StepForward } from 'lucide-react'
import { ToggleGroup } from 'radix-ui'
import type { ReactNode } from 'react'
import { SPEEDS, type Speed } from '../../../replay/clock'
import { Button } from '../../../ui/button'
import { toast } from '../../../ui/toast'
import { duration } from '../../../util/time'
import type { ReplayWish } from './replay-keys'

/** The buttons of a replay. Each has a key, too. */
export function ReplayControls({
  playing,
  speed,
  skipSilences,
  skippedMs,
  can,
  link,
  onWish,
  onSpeed,
  onSkipSilences,
}: {
  playing: boolean
  speed: Speed
  skipSilences: boolean
  skippedMs: number
  /** Whether there is anything to jump to. */
  can: (wish: ReplayWish) => boolean
  link: string
  onWish: (wish: ReplayWish) => void
  onSpeed: (speed: Speed) => void
  onSkipSilences: (skip: boolean) => void
}) {
  const wish = (name: ReplayWish, label: string, keys: string, icon: ReactNode, words?: string) => (
    <Button
      look="quiet"
      className="px-2"
      aria-label={label}
      aria-keyshortcuts={keys}
      title={`${label} (${keys})`}
      disabled={!can(name)}
      onClick={() => onWish(name)}
    >
      {icon}
      {words !== undefined && <span className="hidden sm:inline">{words}</span>}
    </Button>
  )
  return (
    <div role="toolbar" aria-label="Replay" className="flex flex-wrap items-center gap-x-1 gap-y-1">
      <Button look="primary" aria-keyshortcuts="Space" title={`${playing ? 'Pause' : 'Play'} (Space)`} onClick={() => onWish('play')}>
        {playing ? <Pause size={15} aria-hidden /> : <Play size={15} aria-hidden />}
        {playing ? 'Pause' : 'Play'}
      </Button>
      <ToggleGroup.Root
        type="single"
        aria-label="Speed"
        value={String(speed)}
        onValueChange={(value) => {
          const chosen = SPEEDS.find((each) => String(each) === value)
          if (chosen !== undefined) onSpeed(chosen)
        }}
        className="mx-1 flex items-center rounded-md border border-line"
      >
        {SPEEDS.map((each) => (
          <ToggleGroup.Item
            key={each}
            value={String(each)}
            aria-label={`${each} times as fast`}
            className="min-h-9 min-w-9 px-1.5 text-xs text-ink-soft tabular-nums first:rounded-l-md last:rounded-r-md hover:bg-sunken data-[state=on]:bg-accent-soft data-[state=on]:font-semibold data-[state=on]:text-accent"
          >
            {each}×
          </ToggleGroup.Item>
        ))}
      </ToggleGroup.Root>
      {wish('start', 'Go to the beginning', 'Home', <SkipBack size={15} aria-hidden />)}
      {wish('back', 'One event back', 'ArrowLeft', <StepBack size={15} aria-hidden />)}
      {wish('forward', 'One event forward', 'ArrowRight', <StepForward size={15} aria-hidden />)}
      {wish('end', 'Go to the end', 'End', <SkipForward size={15} aria-hidden />)}
      {wish('lastError', 'Previous error', 'Shift+E', <Arrow direction="left" icon={<CircleAlert size={15} aria-hidden />} />)}
      {wish('nextError', 'Next error', 'E', <Arrow direction="right" icon={<CircleAlert size={15} aria-hidden />} />)}
      {wish('lastEdit', 'Previous edit', 'Shift+D', <Arrow direction="left" icon={<FilePen size={15} aria-hidden />} />)}
      {wish('nextEdit', 'Next edit', 'D', <Arrow direction="right" icon={<FilePen size={15} aria-hidden />} />)}
      <label className="flex min-h-9 items-center gap-1.5 px-1 text-sm text-ink-soft">
        <input type="checkbox" checked={skipSilences} onChange={(event) => onSkipSilences(event.target.checked)} className="accent-accent" />
        Skip idle time
        {skipSilences && skippedMs > 0 && <span className="text-xs text-ink-faint">({duration(skippedMs)} skipped)</span>}
      </label>
      <Button look="plain" className="ml-auto" aria-label="Copy link to this moment" onClick={() => void copyLink(link)}>
        <Link2 size={15} aria-hidden />
        <span>
          Copy link<span className="hidden sm:inline"> to this moment</span>
        </span>
      </Button>
    </div>
  )
}

function Arrow({ direction, icon }: { direction: 'left' | 'right'; icon: ReactNode }) {
  return (
    <span aria-hidden className="inline-flex items-center gap-0.5">
      {direction === 'left' && '‹'}
      {icon}
      {direction === 'right' && '›'}
    </span>
  )
}

async function copyLink(link: string) {
  try {
    await navigator.clipboard.writeText(link)
    toast('The link to this moment is copied.')
  } catch {
    toast(`This browser does not let the page copy. The link is ${link}`, { tone: 'bad' })
  }
}
