import { queryOptions } from '@tanstack/react-query'
import { api } from '../util/paths'
import type { BranchList, RepositoryList } from './contract'
import { get } from './http'

/** Enough to choose from; who wants another one types more of its name. */
const ENOUGH = 30
/** A page may be empty, if nothing on it has the name that is searched for. */
const MAX_REQUESTS = 6

/** How long a list is shown without being read again. */
const FRESH_MS = 60_000

export interface Repositories extends Pick<RepositoryList, 'repositories' | 'unavailable'> {
  /** Whether there are others with the same part of a name. */
  readonly hasMore: boolean
}

/** The repositories that a ticket of this project can name. */
export const repositoriesQuery = (search: string, project: string) =>
  queryOptions({
    queryKey: ['repositories', project, search],
    staleTime: FRESH_MS,
    queryFn: async ({ signal }): Promise<Repositories> => {
      const found: Repositories = { repositories: [], unavailable: [], hasMore: false }
      let cursor: string | undefined
      for (let request = 0; request < MAX_REQUESTS; request += 1) {
        const query = { query: search, cursor, project_id: project === '' ? undefined : project }
        const page = await get<RepositoryList>(api.repositories, query, signal)
        found.repositories.push(...page.repositories)
        found.unavailable.push(...page.unavailable)
        if (page.next_cursor === null) return found
        cursor = page.next_cursor
        if (found.repositories.length >= ENOUGH) break
      }
      return { ...found, hasMore: true }
    },
  })

/** The branches of a repository whose names contain the text. */
export const branchesQuery = (repository: string, search: string, project: string) =>
  queryOptions({
    queryKey: ['branches', project, repository, search],
    staleTime: FRESH_MS,
    queryFn: ({ signal }) => {
      const query = { repository, query: search, project_id: project === '' ? undefined : project }
      return get<BranchList>(api.repositoryBranches, query, signal)
    },
  })
