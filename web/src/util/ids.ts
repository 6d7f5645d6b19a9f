/**
 * An id that nobody else has. `crypto.randomUUID` is only there on pages that came over HTTPS or from this machine;
 * a plane on another machine of the house is neither.
 */
export function freshId(prefix: string): string {
  const random = crypto.getRandomValues(new Uint8Array(16))
  return `${prefix}-${Array.from(random, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
}
