import type { FileDiff } from '../api/contract'

/** The files of a patch that git has written, as the API describes files of a branch. */
export function filesOf(patch: string): FileDiff[] {
  const starts = [...patch.matchAll(/^diff --git /gm)].map((match) => match.index)
  return starts.map((start, index) => fileOf(patch.slice(start, starts[index + 1])))
}

function fileOf(section: string): FileDiff {
  const hunks = section.search(/^@@ /m)
  const head = hunks === -1 ? section : section.slice(0, hunks)
  const diff = hunks === -1 ? '' : section.slice(hunks)
  const binary = /^GIT binary patch|^Binary files /m.test(head)
  const [from, to] = [name(head, '--- a/'), name(head, '+++ b/')]
  return {
    path: to ?? from ?? renamed(head, 'rename to ') ?? firstName(head),
    previous_path: renamed(head, 'rename from '),
    change_type: changeOf(head),
    additions: lines(diff, '+'),
    deletions: lines(diff, '-'),
    diff: binary ? null : diff,
    diff_truncated: false,
  }
}

function changeOf(head: string): string {
  if (/^new file mode /m.test(head)) return 'created'
  if (/^deleted file mode /m.test(head)) return 'deleted'
  return /^rename from /m.test(head) ? 'renamed' : 'modified'
}

/** Git quotes names with special characters as a C string. A tab follows names with spaces. */
function name(head: string, prefix: string): string | null {
  const [sign, side] = [prefix.slice(0, 4), prefix.slice(4)]
  for (const line of head.split('\n')) {
    if (!line.startsWith(sign)) continue
    const path = unquoted(line.slice(sign.length).replace(/\t$/, ''))
    return path.startsWith(side) ? path.slice(side.length) : null
  }
  return null
}

function renamed(head: string, prefix: string): string | null {
  const line = head.split('\n').find((each) => each.startsWith(prefix))
  return line === undefined ? null : unquoted(line.slice(prefix.length))
}

/** Of a file without other names: both halves of the line are the same. */
function firstName(head: string): string {
  const line = (head.split('\n', 1)[0] ?? '').slice('diff --git '.length)
  const half = line.slice(0, (line.length - 1) / 2)
  const path = unquoted(half)
  return path.startsWith('a/') ? path.slice(2) : path
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', '"': '"', '\\': '\\' }

function unquoted(text: string): string {
  if (!/^".*"$/.test(text)) return text
  const bytes: number[] = []
  const encoder = new TextEncoder()
  for (const [part, octal, letter] of text.slice(1, -1).matchAll(/\\([0-7]{3})|\\(.)|[^\\]+/gs)) {
    if (octal !== undefined) bytes.push(Number.parseInt(octal, 8))
    else bytes.push(...encoder.encode(letter === undefined ? part : (ESCAPES[letter] ?? letter)))
  }
  return new TextDecoder().decode(new Uint8Array(bytes))
}

const lines = (diff: string, sign: '+' | '-') => diff.split('\n').filter((line) => line.startsWith(sign)).length
