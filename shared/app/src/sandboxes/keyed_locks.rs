//! In-process locks, one for each sandbox, with a cache of its state.
//!
//! Requests for the same sandbox run one after the other, and each starts from the state that the previous one wrote.
//! That saves an ingest one of two table calls, and keeps requests of one process from conflicting with each other.
//! The cached state may be stale; only the conditional write decides.

use domain::{Sandbox, SandboxId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Beyond this number, locks that are not in use are dropped.
const MAX_LOCKS: usize = 4096;

/// The state of a sandbox as this process last wrote or read it.
#[derive(Debug, Default)]
pub(crate) struct SandboxCache {
    pub(crate) sandbox: Option<Sandbox>,
    /// Whether another process writes to the sandbox as well. Then reading first costs less than a write that fails.
    pub(crate) shared: bool,
}

impl SandboxCache {
    /// The cached state, unless it is probably stale.
    pub(crate) fn take(&mut self) -> Option<Sandbox> {
        if self.shared { None } else { self.sandbox.take() }
    }

    /// Compares the cached state with one that was read. If the version is unchanged, no other process writes.
    pub(crate) fn compare(&mut self, read: &Sandbox) {
        let cached = self.sandbox.take();
        self.shared &= cached.is_none_or(|cached| cached.version != read.version);
    }
}

/// An async lock, because it is held across the write.
pub(crate) type SandboxLock = Arc<tokio::sync::Mutex<SandboxCache>>;

/// The locks of this process.
#[derive(Debug, Default)]
pub struct KeyedLocks(Mutex<HashMap<SandboxId, SandboxLock>>);

impl KeyedLocks {
    pub(crate) fn get(&self, id: &SandboxId) -> SandboxLock {
        let mut locks = self.0.lock().expect("no code panics while it holds the locks");
        if locks.len() >= MAX_LOCKS && !locks.contains_key(id) {
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        locks.entry(id.clone()).or_default().clone()
    }
}
