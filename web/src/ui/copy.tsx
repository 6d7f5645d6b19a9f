import { Check, Copy } from 'lucide-react'
import { useState } from 'react'

/** Copies a text and confirms it. Pass a function if the text is expensive to compute. */
export function CopyButton({ text, what }: { text: string | (() => string); what: string }) {
  const [copied, setCopied] = useState(false)
  const copy = async () => {
    await navigator.clipboard.writeText(typeof text === 'string' ? text : text())
    setCopied(true)
    setTimeout(() => setCopied(false), 1_500)
  }
  return (
    <button
      type="button"
      aria-label={copied ? `Copied ${what}` : `Copy ${what}`}
      title={copied ? 'Copied' : `Copy ${what}`}
      className="inline-grid size-7 place-items-center rounded text-ink-faint hover:bg-sunken hover:text-ink"
      onClick={() => void copy()}
    >
      {copied ? <Check size={14} aria-hidden /> : <Copy size={14} aria-hidden />}
    </button>
  )
}
