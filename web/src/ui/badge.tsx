import type { ReactNode } from 'react'
import { classes } from '../util/classes'

export type Tone = 'quiet' | 'good' | 'bad' | 'warn' | 'info' | 'accent'

const tones: Record<Tone, string> = {
  quiet: 'bg-sunken text-ink-soft border-line',
  good: 'bg-good-soft text-good border-good/30',
  bad: 'bg-bad-soft text-bad border-bad/30',
  warn: 'bg-warn-soft text-warn border-warn/30',
  info: 'bg-info-soft text-info border-info/30',
  accent: 'bg-accent-soft text-accent border-accent/30',
}

/** A label in a coloured pill. The text carries the meaning, not the colour alone. */
export function Badge({ tone = 'quiet', icon, children }: { tone?: Tone; icon?: ReactNode; children: ReactNode }) {
  return (
    <span
      className={classes(
        'inline-flex items-center gap-1 rounded-full border px-2 py-px text-xs font-medium whitespace-nowrap',
        tones[tone],
      )}
    >
      {icon}
      {children}
    </span>
  )
}
