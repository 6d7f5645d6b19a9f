//! Disk quota of the outbox, and the record of what was dropped because of it.

use crate::clock;
use crate::event::Event;
use contract::payloads::WorkerOutboxFull;
use domain::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Limits by kind of data. As the spool fills up, transcripts stop first (they remain in the agent's own file), then
/// long texts are truncated, then events are dropped. Receipts and diagnostics are accepted longest.
#[derive(Debug, Clone, Copy)]
pub(super) struct DiskQuota {
    /// Absolute limit. The last part is reserved for diagnostics about the outbox itself.
    pub max: u64,
    pub receipts: u64,
    /// Events with truncated texts.
    pub short_events: u64,
    /// Events with full texts.
    pub full_events: u64,
    /// Transcript entries. Below this limit an overflow counts as over.
    pub transcripts: u64,
}

impl DiskQuota {
    pub fn new(max: u64) -> Self {
        let reserve = (max / 16).max(64 * 1024).min(max / 8);
        Self {
            max,
            receipts: max - reserve / 2,
            short_events: max - reserve,
            full_events: max - 2 * reserve,
            transcripts: max - 4 * reserve,
        }
    }

    /// Small enough that completed segment files are deleted soon.
    pub fn segment_bytes(self) -> u64 {
        (self.max / 32).clamp(4 * 1024, 1024 * 1024)
    }
}

/// What was dropped since the quota was exceeded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Overflow {
    pub since: Timestamp,
    /// Number of dropped events by type; `receipt` for receipts.
    pub dropped: BTreeMap<String, u64>,
    /// Number of events with truncated texts.
    pub shortened: u64,
    /// The counts are a lower bound, because the worker restarted meanwhile.
    #[serde(default)]
    pub at_least: bool,
}

impl Overflow {
    pub fn new() -> Self {
        Self { since: clock::now(), dropped: BTreeMap::new(), shortened: 0, at_least: false }
    }

    /// Emitted when it starts, so that the log shows where.
    pub fn started(&self, bytes: u64, max: u64) -> Event {
        Event::worker(WorkerOutboxFull {
            ongoing: true,
            since: self.since.to_string(),
            bytes,
            max_bytes: Some(max),
            ..Default::default()
        })
    }

    /// Emitted when there is room again.
    pub fn ended(&self, bytes: u64) -> Event {
        Event::worker(WorkerOutboxFull {
            ongoing: false,
            since: self.since.to_string(),
            bytes,
            max_bytes: None,
            dropped: Some(self.dropped.values().sum()),
            dropped_by_type: Some(self.dropped.clone()),
            shortened: Some(self.shortened),
            until: Some(clock::now().to_string()),
            at_least: Some(self.at_least),
        })
    }
}
