/** The beginning of a long text, cut between lines where that is possible. */
export interface Clipped {
  readonly head: string
  /** Lines that are not in `head`, and how many there are in all. */
  readonly hiddenLines: number
  readonly totalLines: number
  /** `head` is all of it. */
  readonly whole: boolean
}

/** A single line may be a whole file: it is cut too. */
const CHARACTERS_PER_LINE = 400

export function clip(text: string, lines: number): Clipped {
  const totalLines = countLines(text)
  const end = Math.min(endOfLine(text, lines), lines * CHARACTERS_PER_LINE)
  if (end >= text.length) return { head: text, hiddenLines: 0, totalLines, whole: true }
  const head = text.slice(0, end)
  return { head, hiddenLines: Math.max(0, totalLines - countLines(head)), totalLines, whole: false }
}

/** As people count: the end of the last line begins no new one. */
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
