/**
 * How to show the URL of a preview. Only links of the sandbox's provider are framed; what they show is still the agent's
 * page, so it is untrusted. A URL that a worker reports could be any page of the web, made to look like a part of the
 * console: it is a link with its host.
 */
export type PreviewLink =
  | { readonly kind: 'shown'; readonly url: string; readonly permissions: string; readonly local: boolean }
  /** Not a URL that a frame may show. */
  | { readonly kind: 'text'; readonly text: string }

const PERMISSIONS = 'allow-scripts allow-forms allow-popups'

export function previewLink(address: string, ourOrigin: string): PreviewLink {
  const url = URL.canParse(address) ? new URL(address) : null
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) return { kind: 'text', text: address }
  return {
    kind: 'shown',
    url: url.href,
    // On the console's own origin it could access this page and its token, so it gets an opaque origin.
    permissions: url.origin === ourOrigin ? PERMISSIONS : `${PERMISSIONS} allow-same-origin`,
    local: isLocal(url.hostname),
  }
}

/** Reachable only from the machine that it runs on. */
function isLocal(host: string): boolean {
  return (
    host === 'localhost' ||
    host.endsWith('.localhost') ||
    host === '[::1]' ||
    host === '0.0.0.0' ||
    host.startsWith('127.')
  )
}
