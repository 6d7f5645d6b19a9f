import { useMemo } from 'react'
import { Link } from 'react-router'
import { errorMessage } from '../api/errors'
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

export default function SandboxesPage() {
  const { cards, live, refresher, state, isGrowing, isRefreshing, error, refresh } = useFollowedListing()
  const { view, type, flush, choose, clear } = useView()
  const { act, dialog } = useActions(refresher)
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
            <SearchField value={view.query} onType={type} onLeave={flush} />
            <Filters chosen={view.filter} numbers={counts(found)} onChoose={choose} />
          </div>
          {state === 'ready' && (
            <p role="status" className={isGrowing ? 'flex items-center gap-2 text-xs text-ink-faint' : 'sr-only'}>
              {isGrowing && <Spinner size={12} />}
              {isGrowing
                ? `${plural(cards.length, 'sandbox', 'sandboxes')} loaded. Loading older ones…`
                : `${count(shown.length)} of ${plural(cards.length, 'sandbox', 'sandboxes')} shown`}
            </p>
          )}
          {state === 'ready' && error !== null && (
            <p role="alert" className="flex flex-wrap items-center gap-2 text-sm text-bad">
              Some sandboxes could not be loaded. {errorMessage(error)}
              <Button onClick={refresh}>Try again</Button>
            </p>
          )}
        </div>
      </div>
      {state === 'loading' && <Skeletons />}
      {state === 'failed' && <Failed error={error} onRetry={refresh} />}
      {state === 'ready' && shown.length > 0 && <CardGrid cards={shown} act={act} />}
      {state === 'ready' && shown.length === 0 && (isFiltered ? <NoMatches onClear={clear} /> : <NoSandboxes />)}
      {dialog}
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

function NoSandboxes() {
  return (
    <Empty title="No sandboxes yet">
      <p>Create a ticket, and an agent starts working on it in its own sandbox.</p>
      <p className="mt-3">
        <Link to={paths.command} className="font-medium text-accent hover:underline">
          Create a ticket
        </Link>
      </p>
    </Empty>
  )
}

function NoMatches({ onClear }: { onClear: () => void }) {
  return (
    <Empty title="No matches">
      <p>No sandbox matches your search and filters.</p>
      <p className="mt-3">
        <Button onClick={onClear}>Clear filters</Button>
      </p>
    </Empty>
  )
}
