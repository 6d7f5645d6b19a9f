import type { Locator, Page } from '@playwright/test'
import { paths } from '../../src/util/paths'

/** The page that creates tickets. */
export class CommandPage {
  readonly page: Page

  constructor(page: Page) {
    this.page = page
  }

  async open() {
    await this.page.goto(paths.command)
  }

  get prompt(): Locator {
    return this.page.getByRole('textbox', { name: 'What should the agent do?' })
  }

  async chooseAgent(agent: string) {
    await this.page.getByRole('combobox', { name: 'Agent' }).fill(agent)
  }

  async chooseProject(project: string) {
    await this.page.getByRole('combobox', { name: 'Project' }).fill(project)
  }
}
