import { describe, expect, it } from 'vitest'
import type { FileState } from '../../../timeline/run'
import { fileList, neighbour } from './file-list'

const file = (path: string): FileState => ({ path, status: 'modified', added: 1, removed: 0, changes: [] })
const files = ['src/b.ts', 'notes.md', 'src/a.ts', 'docs/deep/x.md'].map(file)
const listed = (search: string) =>
  fileList(files, search).map((item) => (item.kind === 'folder' ? `[${item.folder}]` : item.name))

describe('the list of files', () => {
  it('groups files by folder, top-level files first', () => {
    expect(listed('')).toEqual(['notes.md', '[docs/deep]', 'x.md', '[src]', 'a.ts', 'b.ts'])
  })

  it('searches the full path and ignores case', () => {
    expect(listed(' SRC/ ')).toEqual(['[src]', 'a.ts', 'b.ts'])
    expect(listed('nowhere')).toEqual([])
  })

  it('moves between files, skips folders and stops at the ends', () => {
    const items = fileList(files, '')
    expect(neighbour(items, 'notes.md', 1)).toBe('docs/deep/x.md')
    expect(neighbour(items, 'src/b.ts', 1)).toBe('src/b.ts')
    expect(neighbour(items, 'src/b.ts', -100)).toBe('notes.md')
    expect(neighbour(items, null, 1)).toBe('notes.md')
    expect(neighbour(items, 'unknown', -1)).toBe('src/b.ts')
    expect(neighbour([], null, 1)).toBeNull()
  })
})
