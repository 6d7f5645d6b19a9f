import type { FileChange } from '../../timeline/rows'

/**
 * The content of a file after these changes. Known only if the first change created it and all diffs are complete and
 * apply cleanly; otherwise `null`. A deleted file has the content `''`.
 */
export function contentAfter(changes: readonly FileChange[]): string | null {
  let lines: readonly string[] | null = null
  for (const change of changes) {
    if (change.change === 'deleted') {
      lines = []
      continue
    }
    if (change.binary || !change.complete) return null
    if (change.change === 'created') lines = []
    if (lines === null) return null
    lines = applyDiff(lines, change.diff)
    if (lines === null) return null
  }
  return lines === null ? null : lines.join('\n')
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@/

/** Applies a unified diff. `null` if it does not apply. */
function applyDiff(before: readonly string[], diff: string): readonly string[] | null {
  const after: string[] = []
  let position = 0
  let inHunk = false
  for (const line of diff.split('\n')) {
    const hunk = HUNK.exec(line)
    if (hunk !== null) {
      // With a count of 0, as in "-0,0", the number is that of the line before the hunk.
      const start = hunk[2] === '0' ? Number(hunk[1]) : Number(hunk[1]) - 1
      if (start < position || start > before.length) return null
      after.push(...before.slice(position, start))
      position = start
      inHunk = true
    } else if (inHunk && line !== '' && !line.startsWith('\\')) {
      const text = line.slice(1)
      if (line.startsWith('+')) after.push(text)
      else {
        if (before[position] !== text) return null
        if (line.startsWith(' ')) after.push(text)
        position += 1
      }
    }
  }
  return [...after, ...before.slice(position)]
}
