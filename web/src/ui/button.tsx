import type { ComponentProps } from 'react'
import { classes } from '../util/classes'

type Variant = 'primary' | 'plain' | 'quiet' | 'danger'

const variants: Record<Variant, string> = {
  primary: 'bg-accent text-on-accent border-transparent hover:brightness-110',
  plain: 'bg-surface text-ink border-line-strong/60 hover:bg-sunken',
  quiet: 'bg-transparent text-ink-soft border-transparent hover:bg-sunken hover:text-ink',
  danger: 'bg-surface text-bad border-bad/50 hover:bg-bad-soft',
}

/** A button. With only an icon inside it needs an `aria-label`. */
export function Button({ variant = 'plain', className, ...rest }: ComponentProps<'button'> & { variant?: Variant }) {
  return (
    <button
      type="button"
      className={classes(
        'inline-flex min-h-9 items-center justify-center gap-1.5 rounded-md border px-3 text-sm font-medium whitespace-nowrap transition-colors',
        'disabled:cursor-not-allowed disabled:opacity-55',
        variants[variant],
        className,
      )}
      {...rest}
    />
  )
}
