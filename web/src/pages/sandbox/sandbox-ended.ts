import { createContext } from 'react'

/** Whether the sandbox of the page has ended. Then its messages cannot be sent any more. */
export const SandboxEnded = createContext(false)
