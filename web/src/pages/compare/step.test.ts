import { describe, expect, it } from 'vitest'
import type { LineRow, TextRow, ToolRow } from '../../timeline/rows'
import { steps } from './step'

const base = { key: 'k', seq: 1, lastSeq: 1, at: '2026-01-01T00:00:00Z', turn: 1, parent: null }
const text = (words: string): TextRow => ({ ...base, kind: 'text', text: words, rest: null })
const line = (eventType: string): LineRow => ({ ...base, kind: 'line', tone: 'quiet', text: 'It happens', detail: null, eventType })
const edit = (path: string, status: ToolRow['status'] = 'done'): ToolRow => ({
  ...base,
  kind: 'tool',
  tool: 'Edit',
  title: null,
  toolUseId: 't',
  status,
  input: { file_path: path, old_string: 'a', new_string: 'b' },
  output: null,
  durationMs: 1,
  files: [],
  permission: null,
  repeats: 1,
  rest: null,
})

describe('steps of a run', () => {
  it('are the same in two sandboxes, though each has a folder of its own', () => {
    const [left] = steps([edit('/data/sandboxes/box-1/workspace/src/a.ts')], 'box-1')
    const [right] = steps([edit('/data/sandboxes/box-2/workspace/src/a.ts')], 'box-2')
    expect(left?.content).toBe(right?.content)
    expect(left?.detail).toBe('src/a.ts')
  })

  it('are not the same if one of them failed', () => {
    const [left, right] = steps([edit('a'), edit('a', 'failed')], 'box')
    expect(left?.content).not.toBe(right?.content)
    expect(right?.title).toBe('Edit (failed)')
  })

  it('leave out how the sandbox was made, and keep what else happened', () => {
    expect(steps([line('sandbox.creating'), line('agent.waiting'), text('Hi')], 'box').map((step) => step.title)).toEqual([
      'It happens',
      'Writes',
    ])
  })

  it('show the first line of a long text and compare all of it', () => {
    const [one, other] = steps([text('Same start\nleft'), text('Same start\nright')], 'box')
    expect([one?.detail, one?.detail === other?.detail]).toEqual(['Same start', true])
    expect(one?.content).not.toBe(other?.content)
  })
})
