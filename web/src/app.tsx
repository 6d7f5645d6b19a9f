import { Suspense, lazy, useSyncExternalStore } from 'react'
import { Navigate, Route, Routes } from 'react-router'
import { onToken, token } from './api/auth'
import { Shell } from './ui/shell'
import { Empty, Loading } from './ui/states'
import { paths } from './util/paths'

const Command = lazy(() => import('./pages/command'))
const Sandboxes = lazy(() => import('./pages/sandboxes'))
const Sandbox = lazy(() => import('./pages/sandbox'))
const Compare = lazy(() => import('./pages/compare'))

export function App() {
  // Remount all pages when the token changes, so that no page keeps data of another user.
  const currentToken = useSyncExternalStore(onToken, token)
  return (
    <Shell>
      <Suspense fallback={<Loading what="page" />}>
        <Routes key={currentToken}>
          <Route path="/" element={<Navigate to={paths.command} replace />} />
          <Route path="/command" element={<Command />} />
          <Route path="/sandboxes" element={<Sandboxes />} />
          <Route path="/sandbox/:id" element={<Sandbox />} />
          <Route path="/compare" element={<Compare />} />
          <Route path="*" element={<Empty title="Page not found">Use the menu to continue.</Empty>} />
        </Routes>
      </Suspense>
    </Shell>
  )
}
