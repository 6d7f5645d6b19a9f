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
  whole: true,
  fullAvailable: true,
  binary: false,
  toolUseId: null,
  ...more,
})

const created = change('created', '--- /dev/null\n+++ b/notes.md\n@@ -0,0 +1,3 @@\n+one\n+two\n+three\n')

describe('what a file holds after its changes', () => {
  it('is what it was created with, changed by every later diff', () => {
    const edited = change('modified', '--- a/notes.md\n+++ b/notes.md\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n three\n+four\n')
    expect(contentAfter([created])).toBe('one\ntwo\nthree')
    expect(contentAfter([created, edited])).toBe('one\n2\nthree\nfour')
  })

  it('keeps what lies outside of the hunks', () => {
    const later = change('modified', '--- a/notes.md\n+++ b/notes.md\n@@ -3 +3 @@\n-three\n+3\n')
    const inserted = change('modified', '--- a/notes.md\n+++ b/notes.md\n@@ -1,0 +2 @@\n+between\n')
    expect(contentAfter([created, later, inserted])).toBe('one\nbetween\ntwo\n3')
  })

  it('is not known of a file that was there before, of a diff that is cut, of binary files and of diffs that do not fit', () => {
    const edit = change('modified', '@@ -1 +1 @@\n-x\n+y\n')
    expect(contentAfter([edit])).toBeNull()
    expect(contentAfter([created, edit])).toBeNull()
    expect(contentAfter([{ ...created, whole: false }])).toBeNull()
    expect(contentAfter([{ ...created, binary: true }])).toBeNull()
    expect(contentAfter([])).toBeNull()
  })

  it('is nothing once it is deleted, and anew what it is created with again', () => {
    expect(contentAfter([created, change('deleted', '')])).toBe('')
    expect(contentAfter([change('deleted', ''), created])).toBe('one\ntwo\nthree')
  })
})
