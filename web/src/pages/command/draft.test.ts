// @vitest-environment happy-dom
import { beforeEach, describe, expect, it } from 'vitest'
import { forgetTicketId, loadDraft, saveDraft, ticketIdFor, wishOf } from './draft'

beforeEach(() => {
  localStorage.clear()
})

const draft = { ...loadDraft(), prompt: ' Count words\nof a text ' }

describe('a draft', () => {
  it('outlives the page', () => {
    saveDraft({ ...draft, agent: 'claude', priority: 'HIGH' })
    expect(loadDraft()).toEqual({ ...draft, agent: 'claude', priority: 'HIGH' })
  })

  it.each(['not json', 'null', '7', '{"prompt":7,"priority":"SOON"}'])('is blank where %s was kept', (kept) => {
    localStorage.setItem('sunaba.command.draft', kept)
    expect(loadDraft()).toMatchObject({ prompt: '', priority: 'MEDIUM' })
  })

  it('asks for what was chosen, and leaves the rest to the plane', () => {
    expect(wishOf(draft)).toEqual({ description: 'Count words\nof a text', workflow_mode: 'quick', priority: 'MEDIUM' })
    expect(wishOf({ ...draft, repository: ' a/b ', project: 'p', agent: 'claude', model: ' ' })).toMatchObject({
      repository: 'a/b',
      project_id: 'p',
      agent: 'claude',
    })
  })
})

describe('the id of a ticket', () => {
  it('is the same for the same wish until the plane has it, and another afterwards', () => {
    const first = ticketIdFor(wishOf(draft))
    expect(first).toMatch(/^ticket-[0-9a-f]{32}$/)
    expect(ticketIdFor(wishOf(draft))).toBe(first)
    forgetTicketId()
    expect(ticketIdFor(wishOf(draft))).not.toBe(first)
  })

  it('is another for another wish: the plane would refuse two under one name', () => {
    const first = ticketIdFor(wishOf(draft))
    expect(ticketIdFor(wishOf({ ...draft, priority: 'LOW' }))).not.toBe(first)
  })
})
