import type { ReactNode } from 'react'
import { CopyButton } from '../../../ui/copy'
import { dateAndTime, relative, useNow } from '../../../util/time'

export function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title} className="min-w-0 rounded-xl border border-line bg-surface p-4">
      <h2 className="mb-3 text-sm font-semibold">{title}</h2>
      {children}
    </section>
  )
}

export function FactList({ children }: { children: ReactNode }) {
  return <dl className="grid grid-cols-[minmax(7rem,auto)_1fr] items-baseline gap-x-4 gap-y-1.5 text-sm">{children}</dl>
}

/** A name with a value. Renders nothing if the value is unknown. */
export function Fact({ name, children }: { name: string; children: ReactNode }) {
  if (children === null || children === undefined || children === false || children === '') return null
  return (
    <>
      <dt className="text-ink-soft">{name}</dt>
      <dd className="min-w-0 break-words tabular-nums">{children}</dd>
    </>
  )
}

export function IdFact({ name, id }: { name: string; id: string | null | undefined }) {
  if (id === null || id === undefined) return null
  return (
    <Fact name={name}>
      <span className="-my-1 inline-flex max-w-full items-center gap-1">
        <span className="font-mono text-xs break-all">{id}</span>
        <CopyButton text={id} what={`${name.toLowerCase()} ID`} />
      </span>
    </Fact>
  )
}

export function TimeFact({ name, at }: { name: string; at: string | null | undefined }) {
  const now = useNow()
  if (at === null || at === undefined) return null
  return (
    <Fact name={name}>
      <time dateTime={at}>{dateAndTime(at)}</time> <span className="text-ink-faint">({relative(at, now)})</span>
    </Fact>
  )
}
