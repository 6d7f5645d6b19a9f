import { Slider } from 'radix-ui'
import { type KeyboardEvent, memo, useMemo } from 'react'
import { barsPath, bins } from '../../../replay/histogram'
import type { Clock } from '../../../replay/clock'
import type { LogEvent } from '../../../timeline/event'
import type { Mark } from '../../../timeline/marks'
import { classes } from '../../../util/classes'
import { count } from '../../../util/numbers'
import { duration, timeOfDay } from '../../../util/time'

const COLUMNS = 250

const tracks: readonly { kind: Mark['kind']; name: string; colour: string; swatch: string }[] = [
  { kind: 'error', name: 'Errors', colour: 'text-bad', swatch: 'bg-bad' },
  { kind: 'edit', name: 'Edits', colour: 'text-good', swatch: 'bg-good' },
  { kind: 'message', name: 'Messages', colour: 'text-accent', swatch: 'bg-accent' },
  { kind: 'tool', name: 'Tools', colour: 'text-info', swatch: 'bg-info' },
  { kind: 'turn', name: 'Turns', colour: 'text-ink-faint', swatch: 'bg-ink-faint' },
]

/** A slider over the complete run, with a histogram of events. */
export function Scrubber({
  events,
  marks,
  clock,
  index,
  offset,
  onOffset,
  onKeyDown,
}: {
  events: readonly LogEvent[]
  marks: readonly Mark[]
  clock: Clock
  index: number
  offset: number
  onOffset: (offset: number) => void
  onKeyDown: (event: KeyboardEvent) => void
}) {
  return (
    <div className="min-w-0">
      <div className="px-2">
        <Marks marks={marks} clock={clock} first={events[0]?.seq ?? 1} />
      </div>
      <Slider.Root
        className="relative flex h-6 touch-none items-center select-none"
        min={0}
        max={Math.max(1, clock.totalMs)}
        step={1}
        value={[offset]}
        onValueChange={([value = 0]) => onOffset(value)}
        onKeyDown={onKeyDown}
      >
        <Slider.Track className="relative mx-2 h-1.5 grow rounded-full bg-line">
          <Slider.Range className="absolute h-full rounded-full bg-accent" />
        </Slider.Track>
        <Slider.Thumb
          aria-label="Position in the run"
          aria-valuetext={momentText(events, index)}
          className="block size-4 rounded-full border-2 border-accent bg-surface shadow"
        />
      </Slider.Root>
      <ul aria-label="Marks" className="mt-1 flex flex-wrap gap-x-4 gap-y-0.5 px-2 text-xs text-ink-soft">
        {tracks.map(({ kind, name, swatch }) => (
          <li key={kind} className="flex items-center gap-1.5">
            <span aria-hidden className={classes('inline-block size-2 rounded-sm', swatch)} />
            {name} ({count(marks.reduce((sum, mark) => sum + (mark.kind === kind ? 1 : 0), 0))})
          </li>
        ))}
      </ul>
    </div>
  )
}

/** For example "event 120 of 4,000, 12:03:11, 3 min 0 s in". */
export function momentText(events: readonly LogEvent[], index: number): string {
  const [first, event] = [events[0], events[index]]
  if (first === undefined || event === undefined) return 'no events'
  const into = Date.parse(event.at) - Date.parse(first.at)
  return `event ${count(index + 1)} of ${count(events.length)}, ${timeOfDay(event.at)}, ${duration(into)} in`
}

/** One track per kind and one path per track, so the cost of drawing does not depend on the number of events. */
const Marks = memo(function Marks({ marks, clock, first }: { marks: readonly Mark[]; clock: Clock; first: number }) {
  const paths = useMemo(() => {
    const { counts } = bins(marks, clock, first, COLUMNS)
    return tracks.map(({ kind, colour }) => ({ kind, colour, path: barsPath(counts.get(kind) ?? new Uint32Array()) }))
  }, [marks, clock, first])
  return (
    <svg
      aria-hidden
      viewBox={`0 0 ${COLUMNS} ${tracks.length * 1.25}`}
      preserveAspectRatio="none"
      className="block h-14 w-full"
    >
      {paths.map(({ kind, colour, path }, track) => (
        // The stroke keeps columns visible on narrow screens, where a column is less than a pixel wide.
        <path
          key={kind}
          d={path}
          vectorEffect="non-scaling-stroke"
          className={classes('fill-current stroke-current stroke-1', colour)}
          transform={`translate(0 ${track * 1.25 + 0.125})`}
        />
      ))}
    </svg>
  )
})
