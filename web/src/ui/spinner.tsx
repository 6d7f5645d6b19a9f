import { LoaderCircle } from 'lucide-react'

/** A loading indicator. Put a text next to it that says what is loading. */
export function Spinner({ size = 14 }: { size?: number }) {
  return <LoaderCircle aria-hidden size={size} className="animate-spin" />
}
