import type { Row } from '../../timeline/rows'
import type { FileState, Run } from '../../timeline/run'
import { count, dollars } from '../../util/numbers'
import { duration } from '../../util/time'
import { contentAfter } from './content'

/** One line of the comparison: a fact of both runs and a description of the difference. */
export interface Fact {
  readonly name: string
  readonly left: string
  readonly right: string
  readonly difference: string
  readonly same: boolean
}

export function facts(left: Run, right: Run, now: number): Fact[] {
  const number = (name: string, of: (run: Run) => number, format: (value: number) => string = count): Fact =>
    numberFact(name, of(left), of(right), format)
  return [
    textFact('Outcome', outcome(left), outcome(right)),
    textFact('Model', left.model ?? 'Unknown', right.model ?? 'Unknown'),
    durationFact(left, right, now),
    number('Cost', (run) => run.costUsd, dollars),
    number('Input tokens', (run) => run.inputTokens),
    number('Output tokens', (run) => run.outputTokens),
    number('Cache read tokens', (run) => run.cacheReadTokens),
    number('Cache write tokens', (run) => run.cacheWriteTokens),
    number('Turns', (run) => run.turns),
    number('Tool calls', (run) => run.counts.toolUses),
    number('Errors', (run) => run.counts.errors),
    number('Messages', (run) => run.counts.messages),
    number('Files changed', (run) => run.files.length),
    number('Lines added', (run) => sum(run.files.map((file) => file.added))),
    number('Lines removed', (run) => sum(run.files.map((file) => file.removed))),
  ]
}

/** Number of calls per tool, most used first. Collapsed calls are counted individually. */
export function toolFacts(left: readonly Row[], right: readonly Row[]): Fact[] {
  const [ofLeft, ofRight] = [toolUses(left), toolUses(right)]
  const names = [...new Set([...ofLeft.keys(), ...ofRight.keys()])]
  const total = (name: string) => (ofLeft.get(name) ?? 0) + (ofRight.get(name) ?? 0)
  return names
    .sort((a, b) => total(b) - total(a) || a.localeCompare(b))
    .map((name) => numberFact(name, ofLeft.get(name) ?? 0, ofRight.get(name) ?? 0, count))
}

/** A file that at least one of the runs changed. */
export interface ComparedFile {
  readonly path: string
  readonly left: FileState | null
  readonly right: FileState | null
  readonly verdict: 'only left' | 'only right' | 'same' | 'different' | 'unknown'
}

export const verdictLabels: Record<ComparedFile['verdict'], string> = {
  'only left': 'Only left',
  'only right': 'Only right',
  same: 'Same in both',
  different: 'Different',
  unknown: 'Edited differently',
}

/** By path. If the final content is unknown, files with equal edits count as the same, all others as unknown. */
export function compareFiles(left: readonly FileState[], right: readonly FileState[]): ComparedFile[] {
  const [ofLeft, ofRight] = [byPath(left), byPath(right)]
  const names = [...new Set([...ofLeft.keys(), ...ofRight.keys()])].sort((a, b) => a.localeCompare(b))
  return names.map((path) => {
    const file = { path, left: ofLeft.get(path) ?? null, right: ofRight.get(path) ?? null }
    return { ...file, verdict: verdict(file.left, file.right) }
  })
}

function verdict(left: FileState | null, right: FileState | null): ComparedFile['verdict'] {
  if (left === null) return 'only right'
  if (right === null) return 'only left'
  if ((left.status === 'deleted') !== (right.status === 'deleted')) return 'different'
  if (left.status === 'deleted') return 'same'
  const [before, after] = [contentAfter(left.changes), contentAfter(right.changes)]
  if (before !== null && after !== null) return before === after ? 'same' : 'different'
  return sameEdits(left, right) ? 'same' : 'unknown'
}

/** Truncated and binary diffs cannot be compared, so they never count as equal. */
function sameEdits(left: FileState, right: FileState): boolean {
  return (
    left.changes.length === right.changes.length &&
    left.changes.every((change, index) => {
      const other = right.changes[index]
      return (
        other !== undefined &&
        change.complete &&
        other.complete &&
        !change.binary &&
        change.change === other.change &&
        change.diff === other.diff
      )
    })
  )
}

function toolUses(rows: readonly Row[], counted = new Map<string, number>()): Map<string, number> {
  const add = (name: string, times: number) => counted.set(name, (counted.get(name) ?? 0) + times)
  for (const row of rows) {
    if (row.kind === 'tool') add(row.tool, row.repeats)
    else if (row.kind === 'skill') add('Skill', 1)
    else if (row.kind === 'subagent') {
      add('Sub-agent', 1)
      toolUses(row.steps, counted)
    }
  }
  return counted
}

function outcome(run: Run): string {
  if (run.outcome === 'completed') return 'Completed'
  if (run.outcome === 'failed') return 'Failed'
  return run.startedAt === null ? 'Not started' : run.endedAt === null ? 'Running' : 'Ended'
}

function durationFact(left: Run, right: Run, now: number): Fact {
  const [ofLeft, ofRight] = [elapsed(left, now), elapsed(right, now)]
  const format = (milliseconds: number | null) => (milliseconds === null ? 'Not started' : duration(milliseconds))
  if (ofLeft === null || ofRight === null) return textFact('Duration', format(ofLeft), format(ofRight))
  const difference = ofRight - ofLeft
  const same = format(ofLeft) === format(ofRight)
  const comparison = `${duration(Math.abs(difference))} ${difference > 0 ? 'longer' : 'shorter'} on the right`
  return {
    name: 'Duration',
    left: format(ofLeft),
    right: format(ofRight),
    difference: same ? 'same' : comparison,
    same,
  }
}

/** Duration so far, or `null` if the run has not started. */
export function elapsed(run: Run, now: number): number | null {
  if (run.startedAt === null) return null
  return Math.max(0, (run.endedAt === null ? now : Date.parse(run.endedAt)) - Date.parse(run.startedAt))
}

function textFact(name: string, left: string, right: string): Fact {
  const same = left === right
  return { name, left, right, difference: same ? 'same' : 'different', same }
}

function numberFact(name: string, left: number, right: number, format: (value: number) => string): Fact {
  const [ofLeft, ofRight] = [format(left), format(right)]
  const same = ofLeft === ofRight
  const comparison = `${format(Math.abs(right - left))} ${right > left ? 'more' : 'less'} on the right`
  return { name, left: ofLeft, right: ofRight, difference: same ? 'same' : comparison, same }
}

const byPath = (files: readonly FileState[]) => new Map(files.map((file) => [file.path, file]))
const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
