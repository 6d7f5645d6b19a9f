import type { FileChange } from '../../../timeline/rows'
import { classes } from '../../../util/classes'

export const changeLabels: Record<FileChange['change'], string> = {
  created: 'Created',
  modified: 'Modified',
  deleted: 'Deleted',
  renamed: 'Renamed',
}

const letters: Record<FileChange['change'], { letter: string; colour: string }> = {
  created: { letter: 'A', colour: 'text-good' },
  modified: { letter: 'M', colour: 'text-info' },
  deleted: { letter: 'D', colour: 'text-bad' },
  renamed: { letter: 'R', colour: 'text-warn' },
}

/** The status letter of git, with a text alternative. */
export function FileStatus({ change }: { change: FileChange['change'] }) {
  const { letter, colour } = letters[change]
  return (
    <span
      title={changeLabels[change]}
      className={classes('inline-block w-4 text-center font-mono text-xs font-semibold', colour)}
    >
      <span aria-hidden>{letter}</span>
      <span className="sr-only">{changeLabels[change]}</span>
    </span>
  )
}
