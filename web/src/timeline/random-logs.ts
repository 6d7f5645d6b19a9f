import fc from 'fast-check'
import { EVENT_TYPES, type JsonObject } from '../api/contract'
import type { LogEvent } from './event'
import {
  completion,
  decided,
  done,
  edit,
  userMessage,
  injected,
  invoked,
  log,
  queued,
  queuedAgain,
  receipt,
  returned,
  started,
  system,
  text,
  thinking,
  todo,
  eventOf,
  turn,
  call,
  assistantMessage,
  type EventInput,
} from './fixtures'

// Random logs that resemble real ones: sequences of events, each in its own order, interleaved.

export function randomLogs(): fc.Arbitrary<LogEvent[]> {
  return fc.array(fc.tuple(sequence, fc.nat(1_000_000)), { maxLength: 14 }).map((sequences) =>
    log(
      ...interleave(
        sequences.map(([make], index) => make(`${index}`)),
        sequences.map(([, seed]) => seed),
      ),
    ),
  )
}

type Sequence = (name: string) => EventInput[]

const words = fc.constantFrom('one', 'two', 'three')
const paths = fc.constantFrom('a.md', 'b.md')

const command: fc.Arbitrary<Sequence> = fc
  .record({
    word: words,
    ends: fc.constantFrom('well', 'badly', 'never', 'unnamed', 'result'),
    permission: fc.constantFrom('allow', 'deny', null),
    files: fc.nat(2),
  })
  .map(({ word, ends, permission, files }) => (name) => {
    const input = { command: word }
    const end = {
      well: completion(name, 'Bash', input),
      badly: completion(name, 'Bash', input, 'Exit code 1', { is_error: true }),
      never: null,
      unnamed: eventOf('agent.tool_completed', { tool: 'Bash', tool_input: input, tool_response: 'x' }),
      result: eventOf('agent.user_tool_result', { tool_use_id: name, result: 'x' }),
    }[ends]
    return [
      call(name, 'Bash', input),
      ...(permission === null ? [] : [decided(name, permission)]),
      assistantMessage(),
      ...(end === null ? [] : [end]),
      ...Array.from({ length: files }, (_, index) => edit(`${word}-${index}`, name)),
    ]
  })

const write: fc.Arbitrary<Sequence> = fc
  .record({ path: paths, word: words, times: fc.integer({ min: 1, max: 3 }) })
  .map(({ path, word, times }) => (name) => {
    const input = { file_path: path, content: word }
    return Array.from({ length: times }, (_, index) => `${name}-${index}`).flatMap((id) => [
      call(id, 'Write', input),
      completion(id, 'Write', input),
      edit(path, id),
    ])
  })

const message: fc.Arbitrary<Sequence> = fc
  .record({ word: words, far: fc.nat(6), named: fc.boolean(), again: fc.boolean() })
  .map(({ word, far, named, again }) => (name) => {
    const taken = named ? injected(name, word) : eventOf('agent.message_injected', { content: word, message_id: null })
    const steps = [
      receipt(name, 'fetched'),
      taken,
      receipt(name, 'delivered'),
      userMessage(named ? `uuid-${name}` : null, word, { turn: 1 }),
      receipt(name, 'started'),
      receipt(name, 'completed'),
    ]
    const undeliverable = receipt(name, 'undeliverable', { deliveries: 10 })
    const earlier = again ? [queued(name, word), receipt(name, 'fetched'), undeliverable] : []
    return [...earlier, again ? queuedAgain(name, word, 2) : queued(name, word), ...steps.slice(0, far)]
  })

const plan: fc.Arbitrary<Sequence> = fc
  .record({ word: words, byItem: fc.boolean() })
  .map(({ word, byItem }) => (name) => {
    if (!byItem)
      return [
        todo(`${name}-a`, [word, 'pending']),
        completion(`${name}-a`, 'TodoWrite', {}),
        todo(`${name}-b`, [word, 'completed']),
      ]
    const [made, moved] = [
      call(`${name}-a`, 'TaskCreate', { subject: word }),
      call(`${name}-b`, 'TaskUpdate', { taskId: name, status: 'completed' }),
    ]
    return [
      made,
      completion(`${name}-a`, 'TaskCreate', {}, `Task #${name} created: ${word}`),
      moved,
      completion(`${name}-b`, 'TaskUpdate', {}, 'no such task', { is_error: word === 'one' }),
    ]
  })

const remark: fc.Arbitrary<Sequence> = fc
  .tuple(words, fc.constantFrom(text, thinking))
  .map(([word, make]) => () => [make(word), assistantMessage()])

const around: fc.Arbitrary<Sequence> = fc
  .constantFrom<EventInput[]>(
    [eventOf('sandbox.creating'), eventOf('sandbox.retrying', { error: 'x' }), eventOf('sandbox.running'), started()],
    [turn()],
    [eventOf('agent.stream_error', { error: 'killed', restarts: true }), started(), eventOf('agent.waiting')],
    [
      eventOf('preview.starting', { port: 3000 }),
      eventOf('preview.ready', { port: 3000 }),
      eventOf('preview.stopped', { port: 3000 }),
    ],
    [eventOf('iteration.started', { iteration_num: 1 }), eventOf('iteration.failed', { iteration_num: 1, error: 'x' })],
    [eventOf('agent.heartbeat'), eventOf('agent.unparsed', { raw: 1 }), eventOf('spec.progress', {})],
    [edit('c.md', null), edit('d.md', null, { change_type: 'renamed', previous_path: 'c.md' })],
    [userMessage('p', 'the task'), userMessage('q', 'go on'), userMessage('r', '[interrupted]', { synthetic: true })],
    [eventOf('workspace.cloning'), eventOf('workspace.ready')],
    [
      done(),
      eventOf('sandbox.completing'),
      eventOf('agent.shutdown'),
      eventOf('sandbox.completed'),
      eventOf('sandbox.released'),
    ],
    [eventOf('sandbox.terminated', { reason: 'x' }), eventOf('sandbox.released')],
  )
  .map((events) => () => events)

const FIELDS = [
  'tool',
  'tool_use_id',
  'parent_tool_use_id',
  'input',
  'tool_input',
  'tool_response',
  'message_id',
  'message_uuid',
  'content',
  'metadata',
  'subtype',
  'is_error',
  'port',
  'entries',
  'turn',
  'sender',
  'file_path',
]

/** Any type with any data, as a newer, faulty or third-party worker may send it. */
const arbitraryEvent: fc.Arbitrary<Sequence> = fc
  .tuple(
    fc.constantFrom<string>(...EVENT_TYPES, 'agent.telepathy'),
    fc.dictionary(fc.constantFrom(...FIELDS), fc.jsonValue()),
  )
  .map(([type, data]) => () => [eventOf(type, data as JsonObject)])

const leaf = fc.oneof(command, write, message, plan, remark, around, arbitraryEvent)

/** A sub-agent that contains other sequences, including sub-agents. */
const sequence: fc.Arbitrary<Sequence> = fc.letrec<{ sequence: Sequence }>((tie) => ({
  sequence: fc.oneof(
    { maxDepth: 2, depthSize: 'small' },
    { weight: 5, arbitrary: leaf },
    {
      weight: 1,
      arbitrary: fc
        .record({
          inner: fc.array(tie('sequence'), { maxLength: 4 }),
          background: fc.boolean(),
          ends: fc.boolean(),
          isKnown: fc.boolean(),
        })
        .map(({ inner, background, ends, isKnown }): Sequence => (name) => {
          const steps = inner
            .flatMap((make, index) => make(`${name}.${index}`))
            .map((event) => ({ ...event, data: { parent_tool_use_id: name, ...event.data } }))
          const begun = [
            invoked(name, 'look'),
            system('task_started', { tool_use_id: name, is_backgrounded: background }),
            userMessage('u', 'look', { parent_tool_use_id: name }),
            system('task_updated', { task_id: name }),
          ]
          const over = background
            ? [system('task_notification', { tool_use_id: name, status: 'completed' })]
            : [returned(name, 'look')]
          return [...(isKnown ? begun : []), ...steps, ...(ends ? over : [])]
        }),
    },
  ),
})).sequence

/** Merges all sequences; each keeps its own order. */
function interleave(sequences: EventInput[][], seeds: number[]): EventInput[] {
  const left = sequences.map((events) => [...events])
  const result: EventInput[] = []
  for (let step = 0; left.some((events) => events.length > 0); step++) {
    const open = left.filter((events) => events.length > 0)
    // Mostly the oldest sequence continues: a real agent does one thing at a time.
    const choice = (seeds[step % seeds.length] ?? 0) % 3 === 0 ? step % open.length : 0
    const next = open[choice]?.shift()
    if (next !== undefined) result.push(next)
  }
  return result
}
