import { Suspense, lazy, useSyncExternalStore, type ComponentType } from 'react'
import { Navigate, Route, Routes } from 'react-router'
import { onToken, token } from './api/auth'
import { onSignInLink, signInLink } from './api/sign-in-link'
import { Shell } from './ui/shell'
import { SignInDialog } from './ui/sign-in-dialog'
import { Empty, Loading } from './ui/states'
import { entriesOf } from './util/entries'
import { pages, paths, type PageName } from './util/paths'

const components: Readonly<Record<PageName, ComponentType>> = {
  command: lazy(() => import('./pages/command')),
  sandboxes: lazy(() => import('./pages/sandboxes')),
  sandbox: lazy(() => import('./pages/sandbox')),
  compare: lazy(() => import('./pages/compare')),
}

export function App() {
  // Remount all pages when the token changes, so that no page keeps data of another user.
  const currentToken = useSyncExternalStore(onToken, token)
  const { kind } = useSyncExternalStore(onSignInLink, signInLink)
  // Without a token, requests of pages would fail.
  if (kind === 'exchanging' && currentToken === null) return <Loading what="console" />
  return (
    <Shell>
      <SignInDialog />
      <Suspense fallback={<Loading what="page" />}>
        <Routes key={currentToken}>
          <Route index element={<Navigate to={paths.command} replace />} />
          {entriesOf(components).map(([name, Component]) => (
            <Route key={name} path={pages[name].route} element={<Component />} />
          ))}
          <Route path="*" element={<Empty title="Page not found">Use the menu to continue.</Empty>} />
        </Routes>
      </Suspense>
    </Shell>
  )
}
