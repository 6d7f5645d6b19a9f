import ReactMarkdown, { type Components } from 'react-markdown'
import rehypeSanitize from 'rehype-sanitize'
import remarkGfm from 'remark-gfm'
import './markdown.css'

/** Loaded on demand by `markdown.tsx`. */
export default function MarkdownView({ text }: { text: string }) {
  return (
    <div className="markdown">
      <ReactMarkdown remarkPlugins={remarkPlugins} rehypePlugins={rehypePlugins} components={components}>
        {text}
      </ReactMarkdown>
    </div>
  )
}

const remarkPlugins = [remarkGfm, htmlAsText]
const rehypePlugins = [rehypeSanitize]

const components: Components = {
  a: ({ href, children }) =>
    isExternal(href) ? (
      <a href={href} target="_blank" rel="noreferrer">
        {children}
      </a>
    ) : (
      <span>{children}</span>
    ),
  // Loading an image would reveal the reader to its host, and the content security policy forbids it, so link to it.
  img: ({ src, alt }) => {
    const name = alt === undefined || alt === '' ? 'Image' : `Image: ${alt}`
    if (typeof src !== 'string' || !isExternal(src)) return <span>{name}</span>
    return (
      <a href={src} target="_blank" rel="noreferrer">
        {name}
      </a>
    )
  },
  // Headings of a message must not appear in the page's heading outline.
  h1: ({ children }) => <p className="heading heading-large">{children}</p>,
  h2: ({ children }) => <p className="heading heading-large">{children}</p>,
  h3: ({ children }) => <p className="heading">{children}</p>,
  h4: ({ children }) => <p className="heading">{children}</p>,
  h5: ({ children }) => <p className="heading">{children}</p>,
  h6: ({ children }) => <p className="heading">{children}</p>,
  // Wide content scrolls, also by keyboard.
  pre: ({ children }) => <pre tabIndex={0}>{children}</pre>,
  table: ({ children }) => (
    <div className="table" role="region" aria-label="Table" tabIndex={0}>
      <table>{children}</table>
    </div>
  ),
  input: ({ checked }) => (
    <span role="img" aria-label={checked === true ? 'Done' : 'To do'} className="check">
      {checked === true ? '☑' : '☐'}
    </span>
  ),
}

/**
 * Links in messages must lead to another site: `src/app.ts` is a file of the sandbox, not a page of the console, and a
 * link into the console may carry another user's token.
 */
function isExternal(href: string | undefined): boolean {
  if (href === undefined || !URL.canParse(href)) return false
  const { protocol, origin } = new URL(href)
  return protocol === 'mailto:' || ((protocol === 'http:' || protocol === 'https:') && origin !== location.origin)
}

interface Node {
  type: string
  value?: string
  children?: Node[] | undefined
}

/** Shows HTML tags as text. Sanitising alone would drop them together with their meaning. */
function htmlAsText() {
  return (tree: Node) => {
    tree.children = tree.children?.map((child) =>
      child.type === 'html'
        ? { type: 'paragraph', children: [{ type: 'text', value: child.value ?? '' }] }
        : escapeHtml(child),
    )
  }
}

function escapeHtml(node: Node): Node {
  if (node.type === 'html') return { type: 'text', value: node.value ?? '' }
  return node.children === undefined ? node : { ...node, children: node.children.map(escapeHtml) }
}
