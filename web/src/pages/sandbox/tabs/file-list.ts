import type { FileState } from '../../../timeline/run'

/** A line of the file list: a folder or a file. */
export type FileListItem =
  | { readonly kind: 'folder'; readonly folder: string }
  | { readonly kind: 'file'; readonly file: FileState; readonly name: string }

/** Files grouped by folder, both sorted by name; top-level files first. `search` matches anywhere in the path. */
export function fileList(files: readonly FileState[], search: string): FileListItem[] {
  const wanted = search.trim().toLowerCase()
  const folders = new Map<string, FileState[]>()
  for (const file of files) {
    if (!file.path.toLowerCase().includes(wanted)) continue
    const folder = folderOf(file.path)
    const inside = folders.get(folder)
    if (inside === undefined) folders.set(folder, [file])
    else inside.push(file)
  }
  const items: FileListItem[] = []
  for (const [folder, inside] of [...folders].sort(([left], [right]) => left.localeCompare(right))) {
    if (folder !== '') items.push({ kind: 'folder', folder })
    inside.sort((left, right) => left.path.localeCompare(right.path))
    for (const file of inside) items.push({ kind: 'file', file, name: nameOf(file.path) })
  }
  return items
}

/** The file `by` positions below (or above) another, not counting folders. */
export function neighbour(items: readonly FileListItem[], path: string | null, by: number): string | null {
  const files = items.flatMap((item) => (item.kind === 'file' ? [item.file.path] : []))
  const index = path === null ? -1 : files.indexOf(path)
  const next = index === -1 ? (by > 0 ? 0 : files.length - 1) : Math.min(Math.max(index + by, 0), files.length - 1)
  return files[next] ?? null
}

export const folderOf = (path: string) => path.slice(0, Math.max(0, path.lastIndexOf('/')))
export const nameOf = (path: string) => path.slice(path.lastIndexOf('/') + 1)
