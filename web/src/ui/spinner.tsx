import { LoaderCircle } from 'lucide-react'

/** Something is on its way. Beside it stands a word that says what. */
export function Spinner({ size = 14 }: { size?: number }) {
  return <LoaderCircle aria-hidden size={size} className="animate-spin" />
}
