import { useMemo } from 'react'
import { Link } from 'react-router'
import { sentence } from '../api/errors'
import { Button } from '../ui/button'
import { Spinner } from '../ui/spinner'
import { Empty, Failed } from '../ui/states'
import { count, plural } from '../util/numbers'
import { paths } from '../util/paths'
import { useActions } from './sandboxes/actions'
import { CardSkeleton } from './sandboxes/card'
import { useFollowedListing } from './sandboxes/follow'
import { CardGrid } from './sandboxes/grid'
import { counts, filter, search } from './sandboxes/listing'
import { Filters, SearchField, Title } from './sandboxes/toolbar'
import { useView } from './sandboxes/view'

/** Everything that agents work on or have worked on. */
export default function SandboxesPage() {
  const { cards, live, refresher, state, isGrowing, isRefreshing, error, refresh } = useFollowedListing()
  const { view, type, settle, choose, clear } = useView()
  const { act, question } = useActions(refresher)
  const found = useMemo(() => search(cards, view.query), [cards, view.query])
  const shown = useMemo(() => filter(found, view.filter), [found, view.filter])
  const isFiltered = view.query.trim() !== '' || view.filter !== 'all'
  return (
    <div className="flex h-full flex-col">
      <title>Sandboxes · Sunaba</title>
      <div className="px-4 pt-4 pb-2 sm:px-6">
        <div className="mx-auto flex max-w-7xl flex-col gap-3">
          <Title
            total={state === 'ready' ? cards.length : null}
            live={live}
            isRefreshing={isRefreshing}
            onRefresh={refresh}
          />
          <div className="flex flex-col gap-2 lg:flex-row lg:items-center lg:gap-4">
            <SearchField value={view.query} onType={type} onLeave={settle} />
            <Filters chosen={view.filter} numbers={counts(found)} onChoose={choose} />
          </div>
          {state === 'ready' && (
            <p role="status" className={isGrowing ? 'flex items-center gap-2 text-xs text-ink-faint' : 'sr-only'}>
              {isGrowing && <Spinner size={12} />}
              {isGrowing
                ? `${plural(cards.length, 'sandbox', 'sandboxes')} so far; older ones are being loaded…`
                : `${count(shown.length)} of ${plural(cards.length, 'sandbox', 'sandboxes')} shown`}
            </p>
          )}
          {state === 'ready' && error !== null && (
            <p role="alert" className="flex flex-wrap items-center gap-2 text-sm text-bad">
              Not everything could be loaded. {sentence(error)}
              <Button onClick={refresh}>Try again</Button>
            </p>
          )}
        </div>
      </div>
      {state === 'loading' && <Skeletons />}
      {state === 'failed' && <Failed error={error} onRetry={refresh} />}
      {state === 'ready' && shown.length > 0 && <CardGrid cards={shown} act={act} />}
      {state === 'ready' && shown.length === 0 && (isFiltered ? <NothingFound onClear={clear} /> : <NothingYet />)}
      {question}
    </div>
  )
}

function Skeletons() {
  return (
    <div role="status" aria-label="Loading sandboxes…" className="px-4 sm:px-6">
      <div className="mx-auto grid max-w-7xl gap-3 sm:grid-cols-2 lg:grid-cols-3">
        {Array.from({ length: 6 }, (_, place) => (
          <CardSkeleton key={place} />
        ))}
      </div>
    </div>
  )
}

function NothingYet() {
  return (
    <Empty title="No sandboxes yet">
      <p>Say what you want done, and an agent begins in a sandbox of its own.</p>
      <p className="mt-3">
        <Link to={paths.command} className="font-medium text-accent hover:underline">
          Begin with a prompt
        </Link>
      </p>
    </Empty>
  )
}

function NothingFound({ onClear }: { onClear: () => void }) {
  return (
    <Empty title="Nothing matches">
      <p>No sandbox has these words and this status.</p>
      <p className="mt-3">
        <Button onClick={onClear}>Clear filters</Button>
      </p>
    </Empty>
  )
}
