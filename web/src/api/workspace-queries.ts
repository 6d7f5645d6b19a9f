import { queryOptions, useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../util/paths'
import type { TaskWorkspace, WorkspaceFile } from './contract'
import { ApiError, get, getBytes } from './http'
import { keys } from './queries'

/** The work of a task that is on no branch; `null` if none is kept. A worker keeps it when its agent ends. */
export const taskWorkspaceQuery = (sandboxId: string, taskId: string) =>
  queryOptions({
    queryKey: [...keys.sandbox(sandboxId), 'workspace', taskId],
    queryFn: async ({ signal }): Promise<TaskWorkspace | null> => {
      try {
        return await get<TaskWorkspace>(api.taskWorkspaceFiles(taskId), {}, signal)
      } catch (error) {
        if (error instanceof ApiError && (error.code === 'no_workspace' || error.code === 'workspace_expired'))
          return null
        throw error
      }
    },
  })

/** The kept changes as text. A file of one content never changes. */
export const keptPatchQuery = (kept: TaskWorkspace, file: WorkspaceFile) =>
  queryOptions({
    queryKey: ['kept-patch', file.sha256],
    staleTime: Infinity,
    queryFn: async ({ signal }) => (await download(kept, file, () => undefined, signal)).text(),
  })

/** Downloads a file and passes it to the browser. `done` is the number of bytes so far. */
export function useDownload(kept: TaskWorkspace) {
  const [done, setDone] = useState(0)
  const mutation = useMutation({
    mutationFn: async (file: WorkspaceFile) => {
      setDone(0)
      save(await download(kept, file, setDone), `${kept.task_id}.${EXTENSIONS[file.format]}`)
    },
  })
  return { ...mutation, done }
}

const EXTENSIONS = { archive: 'tar.zst', patch: 'patch', bundle: 'bundle' } as const

/** On AWS a response has at most 6 MB, so large files come in pieces. */
async function download(
  kept: TaskWorkspace,
  { format, pieces }: WorkspaceFile,
  onProgress: (bytes: number) => void,
  signal?: AbortSignal,
): Promise<Blob> {
  const parts: Blob[] = []
  let bytes = 0
  for (let piece = 1; piece <= pieces; piece += 1) {
    // One after the other: they are large, and the browser shows how far it is.
    const part = await getBytes(api.taskWorkspace(kept.task_id), { format, piece, attempt: kept.attempt }, signal)
    parts.push(part)
    bytes += part.size
    onProgress(bytes)
  }
  return new Blob(parts)
}

function save(content: Blob, name: string) {
  const address = URL.createObjectURL(content)
  const link = document.createElement('a')
  link.href = address
  link.download = name
  link.click()
  URL.revokeObjectURL(address)
}
