import { ChevronDown, CircleCheck, CircleDashed, CircleX, LoaderCircle, type LucideIcon } from 'lucide-react'
import { Popover } from 'radix-ui'
import type { CheckOut, PullRequestOut } from '../../../api/contract'
import { Badge, type Tone } from '../../../ui/badge'
import { classes } from '../../../util/classes'
import { ofCheck, ofChecks, webAddress } from './pull-request-state'

const icons: Partial<Record<Tone, LucideIcon>> = { good: CircleCheck, bad: CircleX, warn: LoaderCircle }

function Icon({ tone }: { tone: Tone }) {
  const Shape = icons[tone] ?? CircleDashed
  return <Shape aria-hidden size={12} className={classes('shrink-0', tone === 'warn' && 'animate-spin')} />
}

/** All checks of a pull request in two words, and each of them on demand. Renders nothing if there are none. */
export function Checks({ pull }: { pull: Pick<PullRequestOut, 'ci_status' | 'checks'> }) {
  const all = ofChecks(pull)
  if (all === null) return null
  return (
    <Popover.Root>
      <Popover.Trigger className="inline-flex min-h-7 items-center rounded-full hover:brightness-95">
        <Badge tone={all.tone} icon={<Icon tone={all.tone} />}>
          {all.label}
          <ChevronDown size={12} aria-hidden />
        </Badge>
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          align="start"
          sideOffset={4}
          collisionPadding={8}
          aria-label="Checks"
          className="z-50 max-h-[min(24rem,var(--radix-popover-content-available-height))] w-[min(24rem,calc(100vw-1rem))] overflow-auto rounded-lg border border-line bg-surface p-3 shadow-xl"
        >
          <ul className="flex flex-col gap-2">
            {pull.checks.map((check, index) => (
              // Two checks may have the same name.
              <li key={`${check.name} ${index}`}>
                <Check check={check} />
              </li>
            ))}
          </ul>
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  )
}

function Check({ check }: { check: CheckOut }) {
  const { label, tone } = ofCheck(check)
  const address = webAddress(check.url)
  return (
    <div className="flex items-start gap-2 text-sm">
      <Badge tone={tone} icon={<Icon tone={tone} />}>
        {label}
      </Badge>
      <div className="min-w-0">
        {address === null ? (
          <span className="font-medium break-words">{check.name}</span>
        ) : (
          <a
            href={address}
            target="_blank"
            rel="noopener noreferrer"
            className="font-medium break-words text-accent underline underline-offset-2"
          >
            {check.name}
          </a>
        )}
        {check.summary !== null && check.summary !== '' && (
          <p className="text-xs break-words text-ink-soft">{check.summary}</p>
        )}
      </div>
    </div>
  )
}
