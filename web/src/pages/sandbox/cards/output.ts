import type { JsonObject, JsonValue } from '../../../api/contract'
import type { EndEvent, ResultEvent } from '../../../timeline/calls'
import { namesOf } from '../../../timeline/event'
import { isObject, type Field, text } from '../../../timeline/read'

/** The output of a tool as text, from the formats of any worker. */
export function outputText(output: JsonValue): string {
  if (output === null) return ''
  if (typeof output === 'string') return output
  if (Array.isArray(output)) {
    const blocks = output.map((block) =>
      isObject(block) ? text(block, 'text') : typeof block === 'string' ? block : null,
    )
    return blocks.every((block) => block !== null) ? blocks.join('\n') : pretty(output)
  }
  if (!isObject(output)) return String(output)
  const streams = [text(output, 'stdout'), text(output, 'stderr')].filter((stream) => stream !== null && stream !== '')
  if (streams.length > 0) return streams.join('\n')
  if (Array.isArray(output['content'])) return outputText(output['content'])
  return text(output, 'content') ?? text(output, 'output') ?? text(output, 'result') ?? pretty(output)
}

/** The exit code of a command, if its output contains it. */
export function exitCode(output: JsonValue): number | null {
  if (isObject(output)) {
    const code = output['exit_code'] ?? output['exitCode'] ?? output['returnCode']
    return typeof code === 'number' ? code : null
  }
  const match = typeof output === 'string' ? /^(?:Error: )?Exit code (\d+)/.exec(output) : null
  return match === null ? null : Number(match[1])
}

/** Removes the exit code line, which is shown separately. */
export const withoutExitCode = (output: string) => output.replace(/^(?:Error: )?Exit code \d+\n?/, '')

export const pretty = (value: JsonValue) => JSON.stringify(value, null, 2)

/** Where an event has the output of a call, the full text first. */
const OUTPUT_FIELDS = [
  'full_result' satisfies Field<EndEvent['type'] | ResultEvent['type']>,
  'tool_response' satisfies Field<EndEvent['type']>,
  'subagent_result' satisfies Field<'agent.subagent_completed'>,
  'result' satisfies Field<ResultEvent['type']>,
  // From other workers.
  'content',
  'output',
]

/** The full output from an event's body. */
export function fullOutput(body: JsonObject): JsonValue {
  for (const field of OUTPUT_FIELDS.flatMap((each) => namesOf('agent.tool_completed', each))) {
    const value = body[field]
    if (value !== undefined && value !== null) return value
  }
  return null
}

export const fullText = (body: JsonObject) => outputText(fullOutput(body))

/** Parses `mcp__server__tool`. */
export function mcpName(tool: string): { server: string; tool: string } | null {
  const match = /^mcp__(.+?)__(.+)$/.exec(tool)
  return match?.[1] === undefined || match[2] === undefined ? null : { server: match[1], tool: match[2] }
}

/** A diff for a replacement whose position in the file is unknown. */
export function replacementDiff(before: string, after: string): string {
  const lines = (value: string, sign: string) =>
    value === ''
      ? []
      : value
          .replace(/\n$/, '')
          .split('\n')
          .map((line) => sign + line)
  const [removed, added] = [lines(before, '-'), lines(after, '+')]
  return [`@@ -1,${removed.length} +1,${added.length} @@`, ...removed, ...added].join('\n')
}
