import { describe, expect, it } from 'vitest'
import { goesToPreview } from './preview-switch'

const starting = { status: 'starting', seq: 12 }
const ready = { status: 'ready', seq: 15 }

describe('goesToPreview', () => {
  it('goes when a preview becomes ready', () => {
    expect(goesToPreview(starting, ready, 'events', false, 10)).toBe(true)
  })
  it('goes when it is first seen ready, live', () => {
    expect(goesToPreview(null, ready, 'events', false, 10)).toBe(true)
  })
  it('stays where the reader has chosen to be', () => {
    expect(goesToPreview(starting, ready, 'events', true, 10)).toBe(false)
    expect(goesToPreview(starting, ready, 'files', false, 10)).toBe(false)
  })
  it('stays when the preview was ready before the page was opened', () => {
    expect(goesToPreview(null, ready, 'events', false, 20)).toBe(false)
  })
  it('goes once, not with every event', () => {
    expect(goesToPreview(ready, { status: 'ready', seq: 16 }, 'events', false, 10)).toBe(false)
  })
  it('stays when it fails or stops', () => {
    expect(goesToPreview(starting, { status: 'failed', seq: 15 }, 'events', false, 10)).toBe(false)
    expect(goesToPreview(ready, null, 'events', false, 10)).toBe(false)
  })
  it('goes again when it was stopped and comes back', () => {
    expect(goesToPreview({ status: 'stopped', seq: 16 }, { status: 'ready', seq: 20 }, 'events', false, 10)).toBe(true)
  })
})
