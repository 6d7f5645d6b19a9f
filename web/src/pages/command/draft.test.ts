// @vitest-environment happy-dom
import { beforeEach, describe, expect, it } from 'vitest'
import { forgetTicketId, loadDraft, saveDraft, ticketIdFor, ticketOf } from './draft'

beforeEach(() => {
  localStorage.clear()
})

const draft = { ...loadDraft(), prompt: ' Count words\nof a text ' }

describe('a draft', () => {
  it('survives a reload', () => {
    saveDraft({ ...draft, agent: 'claude', priority: 'HIGH' })
    expect(loadDraft()).toEqual({ ...draft, agent: 'claude', priority: 'HIGH' })
  })

  it.each(['not json', 'null', '7', '{"prompt":7,"priority":"SOON"}'])('is empty if %s is stored', (stored) => {
    localStorage.setItem('sunaba.command.draft', stored)
    expect(loadDraft()).toMatchObject({ prompt: '', priority: 'MEDIUM' })
  })

  it('sends only the chosen options', () => {
    expect(ticketOf(draft)).toEqual({
      description: 'Count words\nof a text',
      workflow_mode: 'quick',
      priority: 'MEDIUM',
    })
    expect(
      ticketOf({ ...draft, repository: ' a/b ', base: ' main ', project: 'p', agent: 'claude', model: ' ' }),
    ).toMatchObject({
      repository: 'a/b',
      base_branch: 'main',
      project_id: 'p',
      agent: 'claude',
    })
  })
})

describe('the id of a ticket', () => {
  it('is reused for the same request until it succeeded', () => {
    const first = ticketIdFor(ticketOf(draft))
    expect(first).toMatch(/^ticket-[0-9a-f]{32}$/)
    expect(ticketIdFor(ticketOf(draft))).toBe(first)
    forgetTicketId()
    expect(ticketIdFor(ticketOf(draft))).not.toBe(first)
  })

  it('differs for a different request', () => {
    const first = ticketIdFor(ticketOf(draft))
    expect(ticketIdFor(ticketOf({ ...draft, priority: 'LOW' }))).not.toBe(first)
  })
})
