import { Suspense, lazy, memo } from 'react'

const MarkdownView = lazy(() => import('./markdown-view'))

/** Text that an agent or a person wrote, as Markdown. Nothing in it can run, load or look like the console itself. */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  // Most of what is said has no marks in it, and a feed shows a lot of it while somebody scrolls.
  if (isPlain(text)) return <Plain text={text} />
  return (
    <Suspense fallback={<Plain text={text} />}>
      <MarkdownView text={text} />
    </Suspense>
  )
})

function Plain({ text }: { text: string }) {
  return <p className="break-words whitespace-pre-wrap">{text}</p>
}

/** Whether Markdown would make nothing of it. */
export const isPlain = (text: string) =>
  !/[*_`#[\]<>|~\\&]|https?:|www\.|^ {4}|^\t|^\s*(?:[-+=]|\d+[.)])|@|\n[ \t]*\n/m.test(text)
