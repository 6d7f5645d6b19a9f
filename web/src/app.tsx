import { Suspense, lazy, useSyncExternalStore } from 'react'
import { Navigate, Route, Routes } from 'react-router'
import { onToken, token } from './api/session'
import { Shell } from './ui/shell'
import { Empty, Loading } from './ui/states'
import { paths } from './util/paths'

const Command = lazy(() => import('./pages/command'))
const Sandboxes = lazy(() => import('./pages/sandboxes'))
const Sandbox = lazy(() => import('./pages/sandbox'))
const Compare = lazy(() => import('./pages/compare'))

export function App() {
  // Whoever signs in begins anew: no page keeps what it showed to somebody else.
  const who = useSyncExternalStore(onToken, token)
  return (
    <Shell>
      <Suspense fallback={<Loading what="the page" />}>
        <Routes key={who}>
          <Route path="/" element={<Navigate to={paths.command} replace />} />
          <Route path="/command" element={<Command />} />
          <Route path="/sandboxes" element={<Sandboxes />} />
          <Route path="/sandbox/:id" element={<Sandbox />} />
          <Route path="/compare" element={<Compare />} />
          <Route path="*" element={<Empty title="There is no such page">Use the menu to go on.</Empty>} />
        </Routes>
      </Suspense>
    </Shell>
  )
}
