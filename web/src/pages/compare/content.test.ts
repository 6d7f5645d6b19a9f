import { describe, expect, it } from 'vitest'
import type { FileChange } from '../../timeline/rows'
import { contentAfter } from './content'

const change = (kind: FileChange['change'], diff: string, more: Partial<FileChange> = {}): FileChange => ({
  seq: 1,
  at: '2026-01-01T00:00:00Z',
  path: 'notes.md',
  previousPath: null,
  change: kind,
  added: 0,
  removed: 0,
  diff,
  complete: true,
  fullAvailable: true,
  binary: false,
  toolUseId: null,
  ...more,
})

const created = change('created', '--- /dev/null\n+++ b/notes.md\n@@ -0,0 +1,3 @@\n+one\n+two\n+three\n')

describe('the final content of a file', () => {
  it('is its initial content with every later diff applied', () => {
    const edited = change(
      'modified',
      '--- a/notes.md\n+++ b/notes.md\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n three\n+four\n',
    )
    expect(contentAfter([created])).toBe('one\ntwo\nthree')
    expect(contentAfter([created, edited])).toBe('one\n2\nthree\nfour')
  })

  it('keeps lines outside of the hunks', () => {
    const later = change('modified', '--- a/notes.md\n+++ b/notes.md\n@@ -3 +3 @@\n-three\n+3\n')
    const inserted = change('modified', '--- a/notes.md\n+++ b/notes.md\n@@ -1,0 +2 @@\n+between\n')
    expect(contentAfter([created, later, inserted])).toBe('one\nbetween\ntwo\n3')
  })

  it('is unknown for existing files and for truncated, binary or conflicting diffs', () => {
    const edit = change('modified', '@@ -1 +1 @@\n-x\n+y\n')
    expect(contentAfter([edit])).toBeNull()
    expect(contentAfter([created, edit])).toBeNull()
    expect(contentAfter([{ ...created, complete: false }])).toBeNull()
    expect(contentAfter([{ ...created, binary: true }])).toBeNull()
    expect(contentAfter([])).toBeNull()
  })

  it('is empty after deletion and starts over when the file is recreated', () => {
    expect(contentAfter([created, change('deleted', '')])).toBe('')
    expect(contentAfter([change('deleted', ''), created])).toBe('one\ntwo\nthree')
  })
})
