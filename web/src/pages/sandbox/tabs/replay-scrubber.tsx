import { Slider } from 'radix-ui'
import { type KeyboardEvent, memo, useMemo } from 'react'
import { barsPath, bins } from '../../../replay/bins'
import type { Clock } from '../../../replay/clock'
import type { LogEvent } from '../../../timeline/event'
import type { Mark } from '../../../timeline/marks'
import { classes } from '../../../util/classes'
import { count } from '../../../util/numbers'
import { duration, timeOfDay } from '../../../util/time'

const COLUMNS = 250

const lanes: readonly { kind: Mark['kind']; name: string; ink: string; swatch: string }[] = [
  { kind: 'error', name: 'Errors', ink: 'text-bad', swatch: 'bg-bad' },
  { kind: 'edit', name: 'Edits', ink: 'text-good', swatch: 'bg-good' },
  { kind: 'message', name: 'Messages', ink: 'text-accent', swatch: 'bg-accent' },
  { kind: 'tool', name: 'Tools', ink: 'text-info', swatch: 'bg-info' },
  { kind: 'turn', name: 'Turns', ink: 'text-ink-faint', swatch: 'bg-ink-faint' },
]

/** The whole run as a line to drag along, with what happened where. */
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
          aria-label="Moment of the run"
          aria-valuetext={momentText(events, index)}
          className="block size-4 rounded-full border-2 border-accent bg-surface shadow"
        />
      </Slider.Root>
      <ul aria-label="Marks" className="mt-1 flex flex-wrap gap-x-4 gap-y-0.5 px-2 text-xs text-ink-soft">
        {lanes.map(({ kind, name, swatch }) => (
          <li key={kind} className="flex items-center gap-1.5">
            <span aria-hidden className={classes('inline-block size-2 rounded-sm', swatch)} />
            {name} ({count(marks.reduce((sum, mark) => sum + (mark.kind === kind ? 1 : 0), 0))})
          </li>
        ))}
      </ul>
    </div>
  )
}

/** "event 120 of 4,000, 12:03:11, 3 min 0 s in". */
export function momentText(events: readonly LogEvent[], index: number): string {
  const [first, event] = [events[0], events[index]]
  if (first === undefined || event === undefined) return 'nothing has happened'
  const into = Date.parse(event.at) - Date.parse(first.at)
  return `event ${count(index + 1)} of ${count(events.length)}, ${timeOfDay(event.at)}, ${duration(into)} in`
}

/** A lane for each kind, one path in each: fifty thousand events are no more to draw than fifty. */
const Marks = memo(function Marks({ marks, clock, first }: { marks: readonly Mark[]; clock: Clock; first: number }) {
  const paths = useMemo(() => {
    const { counts } = bins(marks, clock, first, COLUMNS)
    return lanes.map(({ kind, ink }) => ({ kind, ink, path: barsPath(counts.get(kind) ?? new Uint32Array()) }))
  }, [marks, clock, first])
  return (
    <svg aria-hidden viewBox={`0 0 ${COLUMNS} ${lanes.length * 1.25}`} preserveAspectRatio="none" className="block h-14 w-full">
      {paths.map(({ kind, ink, path }, lane) => (
        // The stroke keeps its width on the narrowest screen, where a column is less than a pixel.
        <path
          key={kind}
          d={path}
          vectorEffect="non-scaling-stroke"
          className={classes('fill-current stroke-current stroke-1', ink)}
          transform={`translate(0 ${lane * 1.25 + 0.125})`}
        />
      ))}
    </svg>
  )
})
