//! One lane per sandbox and process: requests for the same sandbox go one after the other, and each finds the
//! head as the last one left it.
//!
//! A lane is a hint, never the truth: the table's condition decides. It makes an ingest one table call instead
//! of two, and spares requests that race within a process from failing each other's conditions.

use domain::{Sandbox, SandboxId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// KeyedLocks of idle sandboxes are forgotten beyond this many.
const MAX_LANES: usize = 4096;

/// What a process remembers of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The head as this process last saw it.
    pub(crate) head: Option<Sandbox>,
    /// Whether somebody else has written since: then they will again, and reading the head first costs less than a
    /// write that is refused.
    pub(crate) shared: bool,
}

impl Memory {
    /// What is worth trying without a look at the table.
    pub(crate) fn recall(&mut self) -> Option<Sandbox> {
        if self.shared { None } else { self.head.take() }
    }

    /// The head was read. If it is still the one that this process left, nobody else writes.
    pub(crate) fn compare(&mut self, read: &Sandbox) {
        let left = self.head.take();
        self.shared &= left.is_none_or(|left| left.version != read.version);
    }
}

/// The lock is an async one because it is held across the write: that is what makes it a lane.
pub(crate) type Lane = Arc<tokio::sync::Mutex<Memory>>;

/// All lanes of a process.
#[derive(Debug, Default)]
pub struct KeyedLocks(Mutex<HashMap<SandboxId, Lane>>);

impl KeyedLocks {
    pub(crate) fn lane(&self, id: &SandboxId) -> Lane {
        let mut lanes = self.0.lock().expect("no code panics while it holds the lanes");
        if lanes.len() >= MAX_LANES && !lanes.contains_key(id) {
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        lanes.entry(id.clone()).or_default().clone()
    }
}
