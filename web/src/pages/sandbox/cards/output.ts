import type { JsonObject, JsonValue } from '../../../api/contract'
import { isObject, text } from '../../../timeline/read'

/** What a tool answered, as text, in whatever shape its worker told it. */
export function outputText(output: JsonValue): string {
  if (output === null) return ''
  if (typeof output === 'string') return output
  if (Array.isArray(output)) {
    const blocks = output.map((block) => (isObject(block) ? text(block, 'text') : typeof block === 'string' ? block : null))
    return blocks.every((block) => block !== null) ? blocks.join('\n') : pretty(output)
  }
  if (!isObject(output)) return String(output)
  const streams = [text(output, 'stdout'), text(output, 'stderr')].filter((stream) => stream !== null && stream !== '')
  if (streams.length > 0) return streams.join('\n')
  if (Array.isArray(output['content'])) return outputText(output['content'])
  return text(output, 'content') ?? text(output, 'output') ?? text(output, 'result') ?? pretty(output)
}

/** How a command ended, where its output says so. */
export function exitCode(output: JsonValue): number | null {
  if (isObject(output)) {
    const told = output['exit_code'] ?? output['exitCode'] ?? output['returnCode']
    return typeof told === 'number' ? told : null
  }
  const match = typeof output === 'string' ? /^(?:Error: )?Exit code (\d+)/.exec(output) : null
  return match === null ? null : Number(match[1])
}

/** The output of a command without the line that only says how it ended. */
export const withoutExitCode = (output: string) => output.replace(/^(?:Error: )?Exit code \d+\n?/, '')

export const pretty = (value: JsonValue) => JSON.stringify(value, null, 2)

/** An event's whole answer, out of its body. */
export function wholeOutput(body: JsonObject): JsonValue {
  for (const field of ['full_response', 'tool_response', 'full_result', 'subagent_result', 'result', 'content', 'output']) {
    const value = body[field]
    if (value !== undefined && value !== null) return value
  }
  return null
}

/** An event's whole text, out of its body. */
export const wholeText = (body: JsonObject) => outputText(wholeOutput(body))

/** `mcp__server__tool`, taken apart. */
export function mcpName(tool: string): { server: string; tool: string } | null {
  const match = /^mcp__(.+?)__(.+)$/.exec(tool)
  return match?.[1] === undefined || match[2] === undefined ? null : { server: match[1], tool: match[2] }
}

/** A diff of an edit that only its words are known of: where in the file it was, nobody has said. */
export function wordsAsDiff(before: string, after: string): string {
  const lines = (value: string, sign: string) => (value === '' ? [] : value.replace(/\n$/, '').split('\n').map((line) => sign + line))
  const [gone, added] = [lines(before, '-'), lines(after, '+')]
  return [`@@ -1,${gone.length} +1,${added.length} @@`, ...gone, ...added].join('\n')
}
