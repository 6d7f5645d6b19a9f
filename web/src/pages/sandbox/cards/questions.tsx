import type { JsonObject } from '../../../api/contract'
import { firstText, isObject, list, text } from '../../../timeline/read'

/** Questions of the agent with their options. */
export function Questions({ input }: { input: JsonObject }) {
  const questions = list(input, 'questions').filter(isObject)
  return (questions.length > 0 ? questions : [input]).map((question, index) => (
    <div key={index} className="min-w-0">
      <p className="font-medium break-words">{firstText(question, 'question', 'header') ?? 'Question'}</p>
      <ul className="mt-1 list-disc pl-5">
        {list(question, 'options').map((option, position) => {
          const label = isObject(option)
            ? (firstText(option, 'label', 'value') ?? '')
            : typeof option === 'string'
              ? option
              : ''
          const description = isObject(option) ? text(option, 'description') : null
          return (
            <li key={position}>
              {label}
              {description !== null && <span className="text-ink-soft">: {description}</span>}
            </li>
          )
        })}
      </ul>
    </div>
  ))
}
