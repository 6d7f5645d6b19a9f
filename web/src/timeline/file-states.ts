import type { LogEvent } from './event'
import { readChange } from './files'
import type { FileChange } from './rows'

/** A file and all its changes. */
export interface FileState {
  readonly path: string
  /** Relative to the start of the run: a file that was created and then modified counts as created. */
  readonly status: FileChange['change']
  readonly added: number
  readonly removed: number
  /** In chronological order. */
  readonly changes: readonly FileChange[]
}

/** Builds the list of changed files of a run. */
export class Files {
  readonly states: FileState[]
  private readonly indexes: Map<string, number>
  private readonly owned = new Map<number, FileChange[]>()

  constructor(states: readonly FileState[]) {
    this.states = [...states]
    this.indexes = new Map(states.map(({ path }, index) => [path, index]))
  }

  apply(event: LogEvent<'agent.file_edited'>): void {
    const change = readChange(event)
    // A renamed file keeps its history, unless a file with the new name exists already.
    const moved =
      change.previousPath === null || this.indexes.has(change.path) ? undefined : this.indexes.get(change.previousPath)
    const index = this.indexes.get(change.path) ?? moved ?? this.states.length
    const before = this.states[index]
    const changes = this.changesOf(index)
    changes.push(change)
    if (moved !== undefined && change.previousPath !== null) this.indexes.delete(change.previousPath)
    this.indexes.set(change.path, index)
    this.states[index] = {
      path: change.path,
      status: before === undefined ? change.change : statusAfter(before.status, change.change),
      added: (before?.added ?? 0) + change.added,
      removed: (before?.removed ?? 0) + change.removed,
      changes,
    }
  }

  private changesOf(index: number): FileChange[] {
    const owned = this.owned.get(index) ?? [...(this.states[index]?.changes ?? [])]
    this.owned.set(index, owned)
    return owned
  }
}

function statusAfter(before: FileState['status'], change: FileState['status']): FileState['status'] {
  if (change === 'deleted') return 'deleted'
  if (before === 'deleted') return 'modified'
  if (before === 'created') return 'created'
  return change === 'created' ? 'modified' : change === 'renamed' || before === 'renamed' ? 'renamed' : 'modified'
}
