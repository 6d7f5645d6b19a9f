import type { FileChange } from '../../timeline/rows'

/**
 * What a file holds after these changes, where the diffs tell: it was created by the first of them, all diffs are whole
 * and fit each other. `null` where they do not. A file that is gone holds `''`; `deleted` says so.
 */
export function contentAfter(changes: readonly FileChange[]): string | null {
  let lines: readonly string[] | null = null
  for (const change of changes) {
    if (change.change === 'deleted') {
      lines = []
      continue
    }
    if (change.binary || !change.whole) return null
    if (change.change === 'created') lines = []
    if (lines === null) return null
    lines = patched(lines, change.diff)
    if (lines === null) return null
  }
  return lines === null ? null : lines.join('\n')
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@/

/** The lines after a unified diff, or `null` if it is no diff of them. */
function patched(before: readonly string[], diff: string): readonly string[] | null {
  const after: string[] = []
  let place = 0
  let inHunk = false
  for (const line of diff.split('\n')) {
    const hunk = HUNK.exec(line)
    if (hunk !== null) {
      // "-0,0" and a count of 0 name the line before the hunk.
      const start = hunk[2] === '0' ? Number(hunk[1]) : Number(hunk[1]) - 1
      if (start < place || start > before.length) return null
      after.push(...before.slice(place, start))
      place = start
      inHunk = true
    } else if (inHunk && line !== '' && !line.startsWith('\\')) {
      const text = line.slice(1)
      if (line.startsWith('+')) after.push(text)
      else {
        if (before[place] !== text) return null
        if (line.startsWith(' ')) after.push(text)
        place += 1
      }
    }
  }
  return [...after, ...before.slice(place)]
}
