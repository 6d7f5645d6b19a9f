import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { BrowserRouter } from 'react-router'
import { retry, retryDelay } from './api/errors'
import { onToken } from './api/session'
import { App } from './app'
import './styles.css'

const queries = new QueryClient({
  // Sockets say when something changed; what they miss, a look at the page again finds.
  defaultOptions: { queries: { retry, retryDelay, staleTime: 15_000, refetchOnWindowFocus: true } },
})

// What one person may see is not shown to the next.
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
