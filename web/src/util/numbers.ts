const grouped = new Intl.NumberFormat('en')

/** "1,234". */
export const count = (value: number) => grouped.format(value)

/** "$0.02", "$0.0031", "$12.40". */
export function dollars(value: number): string {
  if (value === 0) return '$0.00'
  return value < 0.1 ? `$${value.toFixed(4)}` : `$${value.toFixed(2)}`
}

/** "812 B", "3.4 KB", "1.2 MB". */
export function bytes(value: number): string {
  if (value < 1000) return `${value} B`
  if (value < 1_000_000) return `${(value / 1000).toFixed(1)} KB`
  return `${(value / 1_000_000).toFixed(1)} MB`
}

/** "1 event", "2 events". */
export const plural = (value: number, one: string, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`
