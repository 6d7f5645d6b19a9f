import { Tabs } from 'radix-ui'
import { type ReactNode, Suspense, lazy, useEffect, useLayoutEffect, useRef } from 'react'
import { useSearchParams } from 'react-router'
import type { Log } from '../../api/use-log'
import { Loading } from '../../ui/states'
import { count } from '../../util/numbers'
import { Feed } from './feed'
import { type PreviewState, shouldSwitchToPreview } from './preview-switch'
import { type Tab, offeredTabs, tabNames, tabOf } from './tab'

const tabs = {
  preview: lazy(() => import('./tabs/preview')),
  files: lazy(() => import('./tabs/files')),
  changes: lazy(() => import('./tabs/changes')),
  terminal: lazy(() => import('./tabs/terminal')),
  replay: lazy(() => import('./tabs/replay')),
  details: lazy(() => import('./tabs/details')),
}

/** What is shown there is not a conversation with the agent. */
const withoutComposer: readonly Tab[] = ['changes', 'replay', 'details']

/** The tabs of a sandbox. The selected tab is in the URL. */
export function Panels({
  sandboxId,
  log,
  hasChanges,
  composer,
}: {
  sandboxId: string
  log: Log
  hasChanges: boolean
  composer: ReactNode
}) {
  const has = { preview: log.run.preview !== null, changes: hasChanges }
  const [search, setSearch] = useSearchParams()
  const tab = tabOf(search.get('tab'), has)
  const choose = (next: Tab, byUser: boolean) =>
    setSearch(
      (current) => {
        const changed = new URLSearchParams(current)
        if (next === 'events' && !byUser) changed.delete('tab')
        else changed.set('tab', next)
        return changed
      },
      { replace: !byUser },
    )
  usePreviewSwitch(log, tab, search.has('tab'), () => choose('preview', false))

  const offered = offeredTabs(has)
  const files = log.run.files.length
  const opened = useRef<HTMLButtonElement>(null)
  // On small screens not all tabs fit, and tabs may be added: keep the selected one visible.
  useLayoutEffect(() => {
    opened.current?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [tab, offered.length, files])
  return (
    <Tabs.Root
      value={tab}
      onValueChange={(value) => choose(tabOf(value, has), true)}
      activationMode="manual"
      className="flex min-h-0 flex-1 flex-col"
    >
      <Tabs.List
        aria-label="Sandbox views"
        className="flex shrink-0 gap-1 overflow-x-auto border-b border-line bg-surface px-2 sm:px-4"
      >
        {offered.map((each) => (
          <Tabs.Trigger
            key={each}
            value={each}
            ref={each === tab ? opened : null}
            className="flex min-h-10 items-center gap-1.5 border-b-2 border-transparent px-2.5 text-sm whitespace-nowrap text-ink-soft hover:text-ink focus-visible:-outline-offset-2 data-[state=active]:border-accent data-[state=active]:font-medium data-[state=active]:text-ink"
          >
            {tabNames[each]}
            {each === 'files' && files > 0 && (
              <span className="rounded-full bg-sunken px-1.5 text-xs text-ink-soft tabular-nums">
                {count(files)}
                {!log.complete && '+'}
              </span>
            )}
          </Tabs.Trigger>
        ))}
      </Tabs.List>
      {offered.map((each) => (
        <Tabs.Content
          key={each}
          value={each}
          tabIndex={-1}
          className="min-h-0 flex-1 overflow-auto outline-none data-[state=inactive]:hidden"
        >
          <Panel tab={each} sandboxId={sandboxId} log={log} />
        </Tabs.Content>
      ))}
      {!withoutComposer.includes(tab) && composer}
    </Tabs.Root>
  )
}

function Panel({ tab, sandboxId, log }: { tab: Tab; sandboxId: string; log: Log }) {
  if (tab === 'events') return <Feed sandboxId={sandboxId} log={log} />
  const Content = tabs[tab]
  return (
    <Suspense fallback={<Loading what={tabNames[tab].toLowerCase()} />}>
      <Content sandboxId={sandboxId} log={log} />
    </Suspense>
  )
}

/** Switches to a preview that becomes ready while the page is open. */
function usePreviewSwitch(log: Log, tab: Tab, chosenByUser: boolean, go: () => void) {
  const { status = null, seq = 0 } = log.run.preview ?? {}
  const before = useRef<PreviewState | null>(null)
  const since = useRef<number | null>(null)
  const isReady = log.state === 'ready'
  useEffect(() => {
    if (!isReady) return
    since.current ??= log.last
    const current = status === null ? null : { status, seq }
    const shouldSwitch = shouldSwitchToPreview(before.current, current, tab, chosenByUser, since.current)
    before.current = current
    if (shouldSwitch) go()
    // eslint-disable-next-line react-hooks/exhaustive-deps -- only a change of the preview may switch tabs
  }, [isReady, status, seq])
}
