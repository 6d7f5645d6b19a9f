import { useQuery } from '@tanstack/react-query'
import { Folder, GitBranch, History, SquareLibrary } from 'lucide-react'
import { useState } from 'react'
import type { RepositoryOut } from '../../api/contract'
import { errorMessage } from '../../api/errors'
import { branchesQuery, repositoriesQuery, type Repositories } from '../../api/repository-queries'
import { Combobox, type ComboboxOption, type ComboboxState } from '../../ui/combobox'
import { useDebounced } from '../../util/debounce'
import { isThisMachine } from '../../util/hosts'

const TYPING_MS = 200

/** The repository of a ticket: one of the code hosts, a directory of the machine, or any text. */
export function RepositoryField({
  value,
  onChange,
  project,
  recent,
  className,
}: {
  value: string
  onChange: (value: string) => void
  project: string
  /** Repositories of recent tickets. */
  recent: readonly string[]
  className: string
}) {
  const [isOpen, setOpen] = useState(false)
  const search = useDebounced(value.trim(), TYPING_MS)
  const found = useQuery({ ...repositoriesQuery(search, useDebounced(project.trim(), TYPING_MS)), enabled: isOpen })
  const here = isThisMachine(location.hostname)
  return (
    <Combobox
      label="Repository"
      hint={here ? 'owner/name, URL, or a path (operators only)' : 'owner/name or URL'}
      value={value}
      onChange={onChange}
      isOpen={isOpen}
      onOpenChange={setOpen}
      empty={here ? 'No repository with this name. Type a path for a folder.' : 'No repository with this name.'}
      state={stateOf(found, (data) => ({
        options: optionsOf(data, recent, value.trim()),
        footer: footerOf(data),
      }))}
      className={className}
    />
  )
}

/** The base of a ticket: a branch of its repository, or any text. */
export function BaseField({
  repository,
  value,
  onChange,
  project,
  className,
}: {
  repository: string
  value: string
  onChange: (value: string) => void
  project: string
  className: string
}) {
  const [isOpen, setOpen] = useState(false)
  const search = useDebounced(value.trim(), TYPING_MS)
  const named = useDebounced(repository.trim(), TYPING_MS)
  const query = branchesQuery(named, search, useDebounced(project.trim(), TYPING_MS))
  const found = useQuery({ ...query, enabled: isOpen && named !== '' })
  const state = stateOf(found, ({ branches, default_branch, has_more }) => ({
    options: branches.map(({ name }) => ({
      value: name,
      icon: <GitBranch size={14} />,
      note: name === default_branch ? 'default' : undefined,
    })),
    footer: has_more ? 'There are more: type a part of the name.' : undefined,
  }))
  return (
    <Combobox
      label="Base branch"
      hint="Default"
      value={value}
      onChange={onChange}
      isOpen={isOpen}
      onOpenChange={setOpen}
      empty={named === '' ? 'Choose a repository first.' : 'No branch with this name.'}
      state={named === '' ? { kind: 'loaded', options: [] } : state}
      className={className}
    />
  )
}

interface Loaded {
  readonly options: readonly ComboboxOption[]
  readonly footer: string | undefined
}

function stateOf<Data>(
  query: { data: Data | undefined; isError: boolean; error: unknown; refetch: () => unknown },
  read: (data: Data) => Loaded,
): ComboboxState {
  if (query.data !== undefined) return { kind: 'loaded', ...read(query.data) }
  if (query.isError) {
    return { kind: 'failed', message: errorMessage(query.error), onRetry: () => void query.refetch() }
  }
  return { kind: 'loading' }
}

/** Recent ones first. A folder becomes a path that can be continued. */
export function optionsOf(
  { repositories }: Pick<Repositories, 'repositories'>,
  recent: readonly string[],
  typed: string,
): ComboboxOption[] {
  const search = typed.toLowerCase()
  const known = recent.filter((name) => name !== typed && name.toLowerCase().includes(search))
  const others = repositories.filter(({ repository }) => !known.includes(repository))
  return [...known.map((value) => ({ value, icon: <History size={14} />, note: 'recent' })), ...others.map(optionOf)]
}

function optionOf({ repository, code_host, is_repository }: RepositoryOut): ComboboxOption {
  if (!is_repository) {
    return { value: repository.endsWith('/') ? repository : `${repository}/`, icon: <Folder size={14} />, isStep: true }
  }
  return {
    value: repository,
    icon: <SquareLibrary size={14} />,
    note: code_host === 'local' ? 'this machine' : undefined,
  }
}

export function footerOf({ unavailable, hasMore }: Pick<Repositories, 'unavailable' | 'hasMore'>): string | undefined {
  const failed = unavailable.map(({ code_host, detail }) => `${code_host}: ${detail}`)
  const more = hasMore ? ['There are more: type a part of the name.'] : []
  const lines = [...failed, ...more]
  return lines.length === 0 ? undefined : lines.join(' ')
}
