import { describe, expect, it } from 'vitest'
import type { LineRow, TextRow, ToolRow } from '../../timeline/rows'
import { steps } from './step'

const base = { key: 'k', seq: 1, lastSeq: 1, at: '2026-01-01T00:00:00Z', turn: 1, parent: null }
const text = (content: string): TextRow => ({ ...base, kind: 'text', text: content, rest: null })
const line = (eventType: string): LineRow => ({
  ...base,
  kind: 'line',
  tone: 'quiet',
  text: 'Some event',
  detail: null,
  eventType,
})
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
  it('ignore the workspace folder of the sandbox', () => {
    const [left] = steps([edit('/data/sandboxes/box-1/workspace/src/a.ts')], 'box-1')
    const [right] = steps([edit('/data/sandboxes/box-2/workspace/src/a.ts')], 'box-2')
    expect(left?.content).toBe(right?.content)
    expect(left?.detail).toBe('src/a.ts')
  })

  it('differ if one of them failed', () => {
    const [left, right] = steps([edit('a'), edit('a', 'failed')], 'box')
    expect(left?.content).not.toBe(right?.content)
    expect(right?.title).toBe('Edit (failed)')
  })

  it('exclude the creation of the sandbox', () => {
    expect(
      steps([line('sandbox.creating'), line('agent.waiting'), text('Hi')], 'box').map((step) => step.title),
    ).toEqual(['Some event', 'Text'])
  })

  it('show the first line of a text but compare all of it', () => {
    const [left, right] = steps([text('Same start\nleft'), text('Same start\nright')], 'box')
    expect([left?.detail, left?.detail === right?.detail]).toEqual(['Same start', true])
    expect(left?.content).not.toBe(right?.content)
  })
})
