import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { BrowserRouter } from 'react-router'
import { retry } from './api/errors'
import { App } from './app'
import './styles.css'

const queries = new QueryClient({
  // Sockets say when something changed; what they miss, a look at the page again finds.
  defaultOptions: { queries: { retry, staleTime: 15_000, refetchOnWindowFocus: true } },
})

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
