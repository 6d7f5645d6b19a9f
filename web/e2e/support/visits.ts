import { TABS, type Tab } from '../../src/pages/sandbox/tab'
import { type PageName, paths } from '../../src/util/paths'

/** Paths to open, by a name for each. */
type Visits = Readonly<Record<string, string>>

/**
 * Every page in every state that looks different. Tests of all pages follow this list, and a page without an entry does
 * not compile. The task of the second sandbox has a branch.
 */
export function visits(sandbox: string, withBranch: string): Readonly<Record<PageName, Visits>> {
  const sandboxOf = (tab: Tab) => (tab === 'changes' ? withBranch : sandbox)
  return {
    command: { command: paths.command },
    sandboxes: { sandboxes: paths.sandboxes, 'sandboxes-empty': `${paths.sandboxes}?q=no-match` },
    sandbox: Object.fromEntries(TABS.map((tab) => [tab, paths.sandbox(sandboxOf(tab)) + paths.tab(tab)])),
    compare: { 'compare-empty': paths.compare(), compare: paths.compare(sandbox, withBranch) },
  }
}

/** A path without a page. */
export const UNKNOWN_PATH = '/nowhere'
