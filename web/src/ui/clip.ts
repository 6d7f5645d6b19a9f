/** The beginning of a long text, cut between lines if possible. */
export interface Clipped {
  readonly start: string
  /** Lines that are not in `start`, and how many there are in all. */
  readonly hiddenLines: number
  readonly totalLines: number
  /** `start` is the full text. */
  readonly complete: boolean
}

/** A single line may be an entire file, so long lines are cut too. */
const CHARACTERS_PER_LINE = 400

export function clip(text: string, lines: number): Clipped {
  const totalLines = countLines(text)
  const end = Math.min(endOfLine(text, lines), lines * CHARACTERS_PER_LINE)
  if (end >= text.length) return { start: text, hiddenLines: 0, totalLines, complete: true }
  const start = text.slice(0, end)
  return { start, hiddenLines: Math.max(0, totalLines - countLines(start)), totalLines, complete: false }
}

/** A trailing newline does not start another line. */
export function countLines(text: string): number {
  if (text === '') return 0
  let count = 1
  for (let at = text.indexOf('\n'); at >= 0 && at < text.length - 1; at = text.indexOf('\n', at + 1)) count += 1
  return count
}

function endOfLine(text: string, lines: number): number {
  let at = -1
  for (let line = 0; line < lines; line += 1) {
    at = text.indexOf('\n', at + 1)
    if (at < 0 || at === text.length - 1) return text.length
  }
  return at
}
