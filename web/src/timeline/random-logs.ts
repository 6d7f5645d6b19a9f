import fc from 'fast-check'
import { EVENT_TYPES, type JsonObject } from '../api/contract'
import type { LogEvent } from './event'
import { completion, decided, done, edit, heard, injected, invoked, log, queued, receipt, returned, started, system, text, thinking, todo, told, turn, call, whole, type Told } from './fixtures'

// Random logs that look like real ones: strands of events, each in its own order, woven together.

/** A log, whole and in order. */
export function histories(): fc.Arbitrary<LogEvent[]> {
  return fc.array(fc.tuple(strand, fc.nat(1_000_000)), { maxLength: 14 }).map((strands) => log(...woven(strands.map(([make], index) => make(`${index}`)), strands.map(([, seed]) => seed))))
}

type Strand = (name: string) => Told[]

const words = fc.constantFrom('one', 'two', 'three')
const paths = fc.constantFrom('a.md', 'b.md')

const command: fc.Arbitrary<Strand> = fc.record({ word: words, ends: fc.constantFrom('well', 'badly', 'never', 'unnamed', 'told'), permission: fc.constantFrom('allow', 'deny', null), files: fc.nat(2) }).map(({ word, ends, permission, files }) => (name) => {
  const input = { command: word }
  const end = { well: completion(name, 'Bash', input), badly: completion(name, 'Bash', input, 'Exit code 1', { is_error: true }), never: null, unnamed: told('agent.tool_completed', { tool: 'Bash', tool_input: input, tool_response: 'x' }), told: told('agent.user_tool_result', { tool_use_id: name, result: 'x' }) }[ends]
  return [call(name, 'Bash', input), ...(permission === null ? [] : [decided(name, permission)]), whole(), ...(end === null ? [] : [end]), ...Array.from({ length: files }, (_, index) => edit(`${word}-${index}`, name))]
})

const write: fc.Arbitrary<Strand> = fc.record({ path: paths, word: words, times: fc.integer({ min: 1, max: 3 }) }).map(({ path, word, times }) => (name) => {
  const input = { file_path: path, content: word }
  return Array.from({ length: times }, (_, index) => `${name}-${index}`).flatMap((id) => [call(id, 'Write', input), completion(id, 'Write', input), edit(path, id)])
})

const message: fc.Arbitrary<Strand> = fc.record({ word: words, far: fc.nat(6), named: fc.boolean() }).map(({ word, far, named }) => (name) => {
  const taken = named ? injected(name, word) : told('agent.message_injected', { content: word, message_id: null })
  const steps = [queued(name, word), receipt(name, 'fetched'), taken, receipt(name, 'delivered'), heard(named ? `uuid-${name}` : null, word, { turn: 1 }), receipt(name, 'started'), receipt(name, 'completed')]
  return steps.slice(0, far + 1)
})

const plan: fc.Arbitrary<Strand> = fc.record({ word: words, byItem: fc.boolean() }).map(({ word, byItem }) => (name) => {
  if (!byItem) return [todo(`${name}-a`, [word, 'pending']), completion(`${name}-a`, 'TodoWrite', {}), todo(`${name}-b`, [word, 'completed'])]
  const [made, moved] = [call(`${name}-a`, 'TaskCreate', { subject: word }), call(`${name}-b`, 'TaskUpdate', { taskId: name, status: 'completed' })]
  return [made, completion(`${name}-a`, 'TaskCreate', {}, `Task #${name} created: ${word}`), moved, completion(`${name}-b`, 'TaskUpdate', {}, 'no such task', { is_error: word === 'one' })]
})

const remark: fc.Arbitrary<Strand> = fc.tuple(words, fc.constantFrom(text, thinking)).map(([word, make]) => () => [make(word), whole()])

const around: fc.Arbitrary<Strand> = fc
  .constantFrom<Told[]>(
    [told('sandbox.creating'), told('sandbox.retrying', { error: 'x' }), told('sandbox.running'), started()],
    [turn()],
    [told('agent.stream_error', { error: 'killed', restarts: true }), started(), told('agent.waiting')],
    [told('preview.starting', { port: 3000 }), told('preview.ready', { port: 3000 }), told('preview.stopped', { port: 3000 })],
    [told('iteration.started', { iteration_num: 1 }), told('iteration.failed', { iteration_num: 1, error: 'x' })],
    [told('agent.heartbeat'), told('agent.unparsed', { raw: 1 }), told('spec.progress', {})],
    [edit('c.md', null), edit('d.md', null, { change_type: 'renamed', previous_path: 'c.md' })],
    [heard('p', 'the task'), heard('q', 'go on'), heard('r', '[interrupted]', { synthetic: true })],
    [told('workspace.cloning'), told('workspace.ready')],
    [done(), told('sandbox.completing'), told('agent.shutdown'), told('sandbox.completed'), told('sandbox.released')],
    [told('sandbox.terminated', { reason: 'x' }), told('sandbox.released')],
  )
  .map((events) => () => events)

const FIELDS = ['tool', 'tool_use_id', 'parent_tool_use_id', 'input', 'tool_input', 'tool_response', 'message_id', 'message_uuid', 'content', 'metadata', 'subtype', 'is_error', 'port', 'entries', 'turn', 'sender', 'file_path']

/** Any type with any data: what a newer, a broken or a foreign worker may say. */
const strange: fc.Arbitrary<Strand> = fc
  .tuple(fc.constantFrom<string>(...EVENT_TYPES, 'agent.telepathy'), fc.dictionary(fc.constantFrom(...FIELDS), fc.jsonValue()))
  .map(([type, data]) => () => [told(type, data as JsonObject)])


const leaf = fc.oneof(command, write, message, plan, remark, around, strange)

/** A sub-agent around other strands, sub-agents among them. */
const strand: fc.Arbitrary<Strand> = fc.letrec<{ strand: Strand }>((tie) => ({
  strand: fc.oneof(
    { maxDepth: 2, depthSize: 'small' },
    { weight: 5, arbitrary: leaf },
    {
      weight: 1,
      arbitrary: fc.record({ inner: fc.array(tie('strand'), { maxLength: 4 }), background: fc.boolean(), ends: fc.boolean(), isKnown: fc.boolean() }).map(({ inner, background, ends, isKnown }): Strand => (name) => {
        const steps = inner.flatMap((make, index) => make(`${name}.${index}`)).map((event) => ({ ...event, data: { parent_tool_use_id: name, ...event.data } }))
        const begun = [invoked(name, 'look'), system('task_started', { tool_use_id: name, is_backgrounded: background }), heard('u', 'look', { parent_tool_use_id: name }), system('task_updated', { task_id: name })]
        const over = background ? [system('task_notification', { tool_use_id: name, status: 'completed' })] : [returned(name, 'look')]
        return [...(isKnown ? begun : []), ...steps, ...(ends ? over : [])]
      }),
    },
  ),
})).strand

/** All strands in one, each in its own order. */
function woven(strands: Told[][], seeds: number[]): Told[] {
  const left = strands.map((events) => [...events])
  const result: Told[] = []
  for (let step = 0; left.some((events) => events.length > 0); step++) {
    const open = left.filter((events) => events.length > 0)
    // Mostly the oldest goes on: a real agent does one thing at a time.
    const choice = (seeds[step % seeds.length] ?? 0) % 3 === 0 ? step % open.length : 0
    const next = open[choice]?.shift()
    if (next !== undefined) result.push(next)
  }
  return result
}
