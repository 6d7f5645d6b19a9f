import ReactMarkdown, { type Components } from 'react-markdown'
import rehypeSanitize from 'rehype-sanitize'
import remarkGfm from 'remark-gfm'
import './markdown.css'

/** Loaded when the first text needs it: see `markdown.tsx`. */
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
    leadsElsewhere(href) ? (
      <a href={href} target="_blank" rel="noreferrer">
        {children}
      </a>
    ) : (
      <span>{children}</span>
    ),
  // An image would tell its host that somebody reads this, and the plane's policy forbids it: it is a link instead.
  img: ({ src, alt }) => {
    const name = alt === undefined || alt === '' ? 'Image' : `Image: ${alt}`
    if (typeof src !== 'string' || !leadsElsewhere(src)) return <span>{name}</span>
    return (
      <a href={src} target="_blank" rel="noreferrer">
        {name}
      </a>
    )
  },
  // A heading of a message is no heading of the page.
  h1: ({ children }) => <p className="heading heading-large">{children}</p>,
  h2: ({ children }) => <p className="heading heading-large">{children}</p>,
  h3: ({ children }) => <p className="heading">{children}</p>,
  h4: ({ children }) => <p className="heading">{children}</p>,
  h5: ({ children }) => <p className="heading">{children}</p>,
  h6: ({ children }) => <p className="heading">{children}</p>,
  // Whatever is wider than the page scrolls, by keyboard too.
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
 * An agent's links lead out of the console or nowhere: `src/app.ts` is a file of its sandbox and no page of ours, and
 * an address of ours may carry somebody else's token.
 */
function leadsElsewhere(href: string | undefined): boolean {
  if (href === undefined || !URL.canParse(href)) return false
  const { protocol, origin } = new URL(href)
  return protocol === 'mailto:' || ((protocol === 'http:' || protocol === 'https:') && origin !== location.origin)
}

interface Node {
  type: string
  value?: string
  children?: Node[] | undefined
}

/** Tags are shown as they were written. Sanitising alone would drop them, and with them what somebody meant to say. */
function htmlAsText() {
  return (tree: Node) => {
    tree.children = tree.children?.map((child) =>
      child.type === 'html' ? { type: 'paragraph', children: [{ type: 'text', value: child.value ?? '' }] } : within(child),
    )
  }
}

function within(node: Node): Node {
  if (node.type === 'html') return { type: 'text', value: node.value ?? '' }
  return node.children === undefined ? node : { ...node, children: node.children.map(within) }
}
