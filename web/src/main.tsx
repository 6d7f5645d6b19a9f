import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { BrowserRouter } from 'react-router'
import { retry, retryDelay } from './api/errors'
import { onToken } from './api/auth'
import { openSignInLink } from './api/sign-in-link'
import { App } from './app'
import './styles.css'

const queries = new QueryClient({
  // Sockets announce changes. Refetching on focus covers what they miss.
  defaultOptions: { queries: { retry, retryDelay, staleTime: 15_000, refetchOnWindowFocus: true } },
})

// Before the first request, and before the router reads the address.
openSignInLink()

// Another user may not be allowed to see the cached data.
onToken(() => queries.clear())

const root = document.getElementById('root')
if (root === null) throw new Error('index.html has no #root')
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <BrowserRouter>
        <App />
      </BrowserRouter>
    </QueryClientProvider>
  </StrictMode>,
)
