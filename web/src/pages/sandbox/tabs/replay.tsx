import {
  type KeyboardEvent as ReactKeyboardEvent,
  useDeferredValue,
  useEffect,
  useEffectEvent,
  useMemo,
  useState,
} from 'react'
import { momentAt } from '../../../replay/moment'
import { clock } from '../../../replay/clock'
import { jump } from '../../../replay/jump'
import { offsetNow, seek, seekOffset, step, toggle } from '../../../replay/player'
import type { LogEvent } from '../../../timeline/event'
import { marks } from '../../../timeline/marks'
import { Empty, Failed } from '../../../ui/states'
import { paths } from '../../../util/paths'
import { ClockOverride } from '../../../util/time'
import { ReplayControls } from './replay-controls'
import { type ReplayAction, isForReplay, actionOf } from './replay-keys'
import { MomentFacts, MomentRows } from './replay-moment'
import { Scrubber, momentText } from './replay-scrubber'
import { usePlayer } from './use-player'
import { type Log, CompleteRunProgress, useCompleteRun } from './complete-run'

/** Replays the complete run. The position is in the URL: `?tab=replay&at=<sequence number>`. */
export default function ReplayTab({ sandboxId, log }: { sandboxId: string; log: Log }) {
  useCompleteRun(log)
  // New events of a running run must not delay user input.
  const events = useDeferredValue(log.events)
  if (log.state === 'failed') return <Failed error={log.error} onRetry={log.retry} />
  if (!log.complete) return <CompleteRunProgress log={log} />
  if (events.length === 0)
    return <Empty title="No events yet">Events can be replayed here as soon as the agent starts working.</Empty>
  return <Replay sandboxId={sandboxId} events={events} />
}

function Replay({ sandboxId, events }: { sandboxId: string; events: readonly LogEvent[] }) {
  const [skipGaps, setSkipGaps] = useState(true)
  const line = useMemo(() => clock(events, skipGaps), [events, skipGaps])
  const marked = useMemo(() => marks(events), [events])
  const first = events[0]?.seq ?? 1
  const { player, setPlayer, isPaused } = usePlayer(line, first)
  const seq = player.index + first
  const { index } = player
  const moment = useMemo(() => momentAt(events, index + 1), [events, index])

  const target = (action: ReplayAction): number | null => {
    switch (action) {
      case 'nextError':
        return jump(marked, 'error', seq, 'after')
      case 'lastError':
        return jump(marked, 'error', seq, 'before')
      case 'nextEdit':
        return jump(marked, 'edit', seq, 'after')
      case 'lastEdit':
        return jump(marked, 'edit', seq, 'before')
      case 'start':
      case 'back':
        return index === 0 ? null : action === 'start' ? first : seq - 1
      case 'end':
      case 'forward':
        return index >= events.length - 1 ? null : action === 'end' ? first + events.length - 1 : seq + 1
      case 'play':
        return seq
    }
  }
  const perform = (action: ReplayAction) => {
    const wanted = target(action)
    if (action === 'play') setPlayer((before) => toggle(before, line))
    else if (action === 'back' || action === 'forward')
      setPlayer((before) => step(before, line, action === 'back' ? -1 : 1))
    else if (wanted !== null) setPlayer((before) => seek({ ...before, playing: false }, line, wanted - first))
  }
  const press = (event: KeyboardEvent | ReactKeyboardEvent) => {
    const action = event.defaultPrevented ? null : actionOf(event)
    if (action === null || !isForReplay(event.target instanceof Element ? event.target : null, action)) return
    event.preventDefault()
    perform(action)
  }
  const pressAnywhere = useEffectEvent(press)
  useEffect(() => {
    const listener = (event: KeyboardEvent) => pressAnywhere(event)
    document.addEventListener('keydown', listener)
    return () => document.removeEventListener('keydown', listener)
  }, [])

  return (
    <div className="flex h-full min-h-0 flex-col overflow-auto lg:overflow-hidden">
      <div className="flex flex-col gap-2 border-b border-line bg-surface px-3 py-2 sm:px-4">
        <ReplayControls
          playing={player.playing}
          speed={player.speed}
          skipGaps={skipGaps}
          skippedMs={line.skippedMs}
          can={(action) => target(action) !== null}
          link={`${window.location.origin}${paths.moment(sandboxId, seq)}`}
          onAction={perform}
          onSpeed={(speed) => setPlayer((before) => ({ ...before, speed }))}
          onSkipGaps={setSkipGaps}
        />
        <Scrubber
          events={events}
          marks={marked}
          clock={line}
          index={index}
          offset={offsetNow(player, line)}
          onOffset={(offset) => setPlayer((before) => seekOffset(before, line, offset))}
          onKeyDown={press}
        />
        <p className="px-2 text-sm text-ink-soft tabular-nums first-letter:uppercase">{momentText(events, index)}</p>
      </div>
      <div className="min-h-0 flex-1 lg:grid lg:grid-cols-[minmax(0,1fr)_24rem]">
        <div className="flex min-h-0 flex-col border-line lg:border-r">
          <ClockOverride value={Date.parse(events[index]?.at ?? '')}>
            <MomentRows sandboxId={sandboxId} moment={moment} seq={seq} isPaused={isPaused} />
          </ClockOverride>
        </div>
        <div className="min-h-0 border-t border-line lg:overflow-auto lg:border-t-0">
          <MomentFacts sandboxId={sandboxId} run={moment.run} />
        </div>
      </div>
    </div>
  )
}
