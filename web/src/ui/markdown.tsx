import { Suspense, lazy, memo } from 'react'

const MarkdownView = lazy(() => import('./markdown-view'))

/** Markdown by an agent or a person. It cannot run scripts, load resources or imitate the console. */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  // Most texts contain no Markdown, and a feed renders many of them while scrolling.
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

/** Whether the text contains no Markdown syntax. */
export const isPlain = (text: string) =>
  !/[*_`#[\]<>|~\\&]|https?:|www\.|^ {4}|^\t|^\s*(?:[-+=]|\d+[.)])|@|\n[ \t]*\n/m.test(text)
