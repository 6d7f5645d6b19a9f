import type { FileChange } from '../../../timeline/rows'
import { classes } from '../../../util/classes'

export const changeWords: Record<FileChange['change'], string> = {
  created: 'Created',
  modified: 'Modified',
  deleted: 'Deleted',
  renamed: 'Renamed',
}

const letters: Record<FileChange['change'], { letter: string; ink: string }> = {
  created: { letter: 'A', ink: 'text-good' },
  modified: { letter: 'M', ink: 'text-info' },
  deleted: { letter: 'D', ink: 'text-bad' },
  renamed: { letter: 'R', ink: 'text-warn' },
}

/** One letter, as git has it, and a word for who hears it. */
export function FileStatus({ change }: { change: FileChange['change'] }) {
  const { letter, ink } = letters[change]
  return (
    <span title={changeWords[change]} className={classes('inline-block w-4 text-center font-mono text-xs font-semibold', ink)}>
      <span aria-hidden>{letter}</span>
      <span className="sr-only">{changeWords[change]}</span>
    </span>
  )
}
