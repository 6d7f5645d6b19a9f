import { CircleAlert, FilePen, Link2, Pause, Play, SkipBack, SkipForward, StepBack, StepForward } from 'lucide-react'
import { ToggleGroup } from 'radix-ui'
import type { ReactNode } from 'react'
import { SPEEDS, type Speed } from '../../../replay/clock'
import { Button } from '../../../ui/button'
import { toast } from '../../../ui/toast'
import { duration } from '../../../util/time'
import type { ReplayAction } from './replay-keys'

/** The buttons of a replay. Each has a keyboard shortcut. */
export function ReplayControls({
  playing,
  speed,
  skipGaps,
  skippedMs,
  can,
  link,
  onAction,
  onSpeed,
  onSkipGaps,
}: {
  playing: boolean
  speed: Speed
  skipGaps: boolean
  skippedMs: number
  /** Whether an action has a target. */
  can: (action: ReplayAction) => boolean
  link: string
  onAction: (action: ReplayAction) => void
  onSpeed: (speed: Speed) => void
  onSkipGaps: (skip: boolean) => void
}) {
  const action = (name: ReplayAction, label: string, keys: string, icon: ReactNode, text?: string) => (
    <Button
      variant="quiet"
      className="px-2"
      aria-label={label}
      aria-keyshortcuts={keys}
      title={`${label} (${keys})`}
      disabled={!can(name)}
      onClick={() => onAction(name)}
    >
      {icon}
      {text !== undefined && <span className="hidden sm:inline">{text}</span>}
    </Button>
  )
  return (
    <div role="toolbar" aria-label="Replay" className="flex flex-wrap items-center gap-x-1 gap-y-1">
      <Button
        variant="primary"
        aria-keyshortcuts="Space"
        title={`${playing ? 'Pause' : 'Play'} (Space)`}
        onClick={() => onAction('play')}
      >
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
            aria-label={`${each}× speed`}
            className="min-h-9 min-w-9 px-1.5 text-xs text-ink-soft tabular-nums first:rounded-l-md last:rounded-r-md hover:bg-sunken data-[state=on]:bg-accent-soft data-[state=on]:font-semibold data-[state=on]:text-accent"
          >
            {each}×
          </ToggleGroup.Item>
        ))}
      </ToggleGroup.Root>
      {action('start', 'Go to start', 'Home', <SkipBack size={15} aria-hidden />)}
      {action('back', 'Previous event', 'ArrowLeft', <StepBack size={15} aria-hidden />)}
      {action('forward', 'Next event', 'ArrowRight', <StepForward size={15} aria-hidden />)}
      {action('end', 'Go to end', 'End', <SkipForward size={15} aria-hidden />)}
      {action(
        'lastError',
        'Previous error',
        'Shift+E',
        <Arrow direction="left" icon={<CircleAlert size={15} aria-hidden />} />,
      )}
      {action('nextError', 'Next error', 'E', <Arrow direction="right" icon={<CircleAlert size={15} aria-hidden />} />)}
      {action(
        'lastEdit',
        'Previous edit',
        'Shift+D',
        <Arrow direction="left" icon={<FilePen size={15} aria-hidden />} />,
      )}
      {action('nextEdit', 'Next edit', 'D', <Arrow direction="right" icon={<FilePen size={15} aria-hidden />} />)}
      <label className="flex min-h-9 items-center gap-1.5 px-1 text-sm text-ink-soft">
        <input
          type="checkbox"
          checked={skipGaps}
          onChange={(event) => onSkipGaps(event.target.checked)}
          className="accent-accent"
        />
        Skip idle time
        {skipGaps && skippedMs > 0 && <span className="text-xs text-ink-faint">({duration(skippedMs)} skipped)</span>}
      </label>
      <Button
        variant="plain"
        className="ml-auto"
        aria-label="Copy link to this event"
        onClick={() => void copyLink(link)}
      >
        <Link2 size={15} aria-hidden />
        <span>
          Copy link<span className="hidden sm:inline"> to this event</span>
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
    toast('Link copied.')
  } catch {
    toast(`Copying is not available in this browser. Link: ${link}`, { tone: 'bad' })
  }
}
