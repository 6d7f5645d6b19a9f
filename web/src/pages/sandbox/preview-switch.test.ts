import { describe, expect, it } from 'vitest'
import { shouldSwitchToPreview } from './preview-switch'

const starting = { status: 'starting', seq: 12 }
const ready = { status: 'ready', seq: 15 }

describe('shouldSwitchToPreview', () => {
  it('switches when a preview becomes ready', () => {
    expect(shouldSwitchToPreview(starting, ready, 'events', false, 10)).toBe(true)
  })
  it('switches when the first live event is ready', () => {
    expect(shouldSwitchToPreview(null, ready, 'events', false, 10)).toBe(true)
  })
  it('stays on a tab that the user chose', () => {
    expect(shouldSwitchToPreview(starting, ready, 'events', true, 10)).toBe(false)
    expect(shouldSwitchToPreview(starting, ready, 'files', false, 10)).toBe(false)
  })
  it('stays when the preview was ready before the page was opened', () => {
    expect(shouldSwitchToPreview(null, ready, 'events', false, 20)).toBe(false)
  })
  it('switches once, not with every event', () => {
    expect(shouldSwitchToPreview(ready, { status: 'ready', seq: 16 }, 'events', false, 10)).toBe(false)
  })
  it('stays when it fails or stops', () => {
    expect(shouldSwitchToPreview(starting, { status: 'failed', seq: 15 }, 'events', false, 10)).toBe(false)
    expect(shouldSwitchToPreview(ready, null, 'events', false, 10)).toBe(false)
  })
  it('switches again after a restart', () => {
    expect(
      shouldSwitchToPreview({ status: 'stopped', seq: 16 }, { status: 'ready', seq: 20 }, 'events', false, 10),
    ).toBe(true)
  })
})
