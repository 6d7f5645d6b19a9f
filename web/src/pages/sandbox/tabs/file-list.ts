import type { FileState } from '../../../timeline/run'

/** A line of the list of files: a folder, or a file in it. */
export type FileListItem =
  | { readonly kind: 'folder'; readonly folder: string }
  | { readonly kind: 'file'; readonly file: FileState; readonly name: string }

/** Files by folder, both in the order of the alphabet; those without a folder first. `search` is looked for in whole paths. */
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
  for (const [folder, inside] of [...folders].sort(([one], [other]) => one.localeCompare(other))) {
    if (folder !== '') items.push({ kind: 'folder', folder })
    inside.sort((one, other) => one.path.localeCompare(other.path))
    for (const file of inside) items.push({ kind: 'file', file, name: nameOf(file.path) })
  }
  return items
}

/** The file so many lines below (or above) another, folders not counted. */
export function neighbour(items: readonly FileListItem[], path: string | null, by: number): string | null {
  const files = items.flatMap((item) => (item.kind === 'file' ? [item.file.path] : []))
  const place = path === null ? -1 : files.indexOf(path)
  const next = place === -1 ? (by > 0 ? 0 : files.length - 1) : Math.min(Math.max(place + by, 0), files.length - 1)
  return files[next] ?? null
}

export const folderOf = (path: string) => path.slice(0, Math.max(0, path.lastIndexOf('/')))
export const nameOf = (path: string) => path.slice(path.lastIndexOf('/') + 1)
