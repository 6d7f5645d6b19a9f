import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Api } from './api'
import { script } from './scripts'

/** A repository of this machine, with one commit on `main`. */
export class Repository {
  static async create(): Promise<Repository> {
    const repository = new Repository(mkdtempSync(path.join(tmpdir(), 'sunaba-e2e-repository-')))
    await repository.git('init', '--quiet', '--initial-branch=main')
    writeFileSync(path.join(repository.path, 'greeting.txt'), 'Good afternoon.\n')
    await repository.git('add', '--all')
    const identity = ['-c', 'user.name=Test', '-c', 'user.email=test@sunaba.example']
    await repository.git(...identity, 'commit', '--quiet', '--message', 'Add a greeting')
    return repository
  }

  readonly path: string

  private constructor(folder: string) {
    this.path = folder
  }

  async git(...args: readonly string[]): Promise<string> {
    const { stdout } = await promisify(execFile)('git', ['-C', this.path, ...args])
    return stdout.trim()
  }

  remove() {
    rmSync(this.path, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** A completed task with changes on a branch of this repository. Returns its sandbox. */
export async function branchShowcase(api: Api, repository: Repository): Promise<string> {
  const title = 'Write a greeting and check it'
  const ticket = await api.ticket({ title, agent: script('brief'), repository: repository.path })
  await api.untilTask(ticket.task_id ?? '', 'completed')
  return api.sandboxOf(ticket.id)
}
