//! How much may lie on disk, and what was left out because of it.

use super::Secrets;
use crate::clock;
use crate::event::Event;
use domain::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// What still fits, by how full the spool is. Transcripts wait first, in the agent's own record; then long texts go, then
/// events. Receipts and what is said about all this have room to the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Nothing at all beyond this. The last part is for what is said about the outbox itself.
    pub most: u64,
    /// Receipts up to here.
    pub receipts: u64,
    /// Events without their long texts up to here.
    pub lean: u64,
    /// Events as they are up to here.
    pub whole: u64,
    /// Transcripts are taken up to here. Below it there is room again.
    pub transcripts: u64,
}

impl Room {
    /// Shares out so many bytes.
    pub fn of(most: u64) -> Self {
        let reserve = (most / 16).max(64 * 1024).min(most / 8);
        Self {
            most,
            receipts: most - reserve / 2,
            lean: most - reserve,
            whole: most - 2 * reserve,
            transcripts: most - 4 * reserve,
        }
    }

    /// Files this large are deleted soon enough to make room.
    pub fn segment_bytes(self) -> u64 {
        (self.most / 32).clamp(4 * 1024, 1024 * 1024)
    }
}

/// What was left out since the spool was full.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LeftOut {
    /// Since when.
    pub since: Timestamp,
    /// Events that are lost, by type; `receipt` for receipts.
    pub dropped: BTreeMap<String, u64>,
    /// Events that were told without their long texts.
    pub shortened: u64,
    /// Whether a life ended before all was counted.
    #[serde(default)]
    pub at_least: bool,
}

impl LeftOut {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { since: clock::now(), dropped: BTreeMap::new(), shortened: 0, at_least: false }
    }

    /// Said when it begins, at the place in the log where it begins.
    pub fn begins(&self, bytes: u64, most: u64) -> Event {
        Event::worker("worker.outbox_full")
            .with("ongoing", true)
            .with("since", self.since.to_string())
            .with("bytes", bytes)
            .with("max_bytes", most)
    }

    /// Said when there is room again.
    pub fn ends(&self, bytes: u64) -> Event {
        Event::worker("worker.outbox_full")
            .with("ongoing", false)
            .with("dropped", self.dropped.values().sum::<u64>())
            .with("dropped_by_type", json!(self.dropped))
            .with("shortened", self.shortened)
            .with("since", self.since.to_string())
            .with("until", clock::now().to_string())
            .with("at_least", self.at_least)
            .with("bytes", bytes)
    }
}

/// Says something about the worker itself, without secrets.
pub(super) fn notice(mut event: Event, voice: &Voice) -> (Event, String) {
    super::fit::prepare(&mut event, &voice.context, &voice.secrets);
    let line = super::fit::line(&mut event);
    (event, line)
}

/// What goes with everything that is told, and what goes with nothing.
#[derive(Debug, Default)]
pub(super) struct Voice {
    /// Fields of every event.
    pub context: serde_json::Map<String, serde_json::Value>,
    /// What is never told.
    pub secrets: Secrets,
}
