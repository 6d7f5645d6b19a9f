//! One lane per sandbox and process: requests for the same sandbox go one after the other, and each finds the
//! head as the last one left it.
//!
//! A lane is a hint, never the truth: the table's condition decides. It makes an ingest one table call instead
//! of two, and spares requests that race within a process from failing each other's conditions.

use domain::{Head, SandboxId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Lanes of idle sandboxes are forgotten beyond this many.
const MAX_LANES: usize = 4096;

/// The head of a sandbox as this process last saw it.
///
/// The lock is an async one because it is held across the write: that is what makes it a lane.
pub(crate) type Lane = Arc<tokio::sync::Mutex<Option<Head>>>;

/// All lanes of a process.
#[derive(Debug, Default)]
pub struct Lanes(Mutex<HashMap<SandboxId, Lane>>);

impl Lanes {
    pub(crate) fn lane(&self, id: &SandboxId) -> Lane {
        let mut lanes = self.0.lock().expect("no code panics while it holds the lanes");
        if lanes.len() >= MAX_LANES && !lanes.contains_key(id) {
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        lanes.entry(id.clone()).or_default().clone()
    }
}
