import type { Api } from './api'
import { command, failed, preview, started, text, thinking, turnCompleted, written } from './events'

/** A run with content for every tab. */
export async function showcase(api: Api): Promise<string> {
  const worker = await api.register('Show every tab')
  await worker.emit(
    started(),
    thinking('A page with a heading is enough. I will write it, check it and fix what is missing.'),
    text(
      'I write a page:\n\n1. a **heading**\n2. a `paragraph`\n\n| file | why |\n|---|---|\n| index.html | the page |',
    ),
    ...written('index.html', ['<!doctype html>', '<h1>Open</h1>', '<p>From nine to five.</p>']),
    ...command('npm test', '\u001b[31m1 failed\u001b[0m, \u001b[32m11 passed\u001b[0m', 1),
    failed('The test runner ended early.'),
    ...written(
      'src/opening-hours.ts',
      Array.from({ length: 40 }, (_, line) => `export const hour${line} = ${line}`),
    ),
    ...command('npm test', '\u001b[32m12 passed\u001b[0m'),
    { event_type: 'agent.weather', event_data: { sky: 'cloudy' } },
    turnCompleted(1, 0.25),
    preview('starting', null),
    preview('stopped', null),
  )
  return worker.id
}
