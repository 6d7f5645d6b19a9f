/**
 * A random unique id. `crypto.randomUUID` exists only in secure contexts (HTTPS or localhost), and a control plane on
 * another machine of the local network is neither.
 */
export function uniqueId(prefix: string): string {
  const random = crypto.getRandomValues(new Uint8Array(16))
  return `${prefix}-${Array.from(random, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
}
