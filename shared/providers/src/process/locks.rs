//! Keyed locks: one operation at a time per sandbox, without blocking other sandboxes.

use domain::SandboxId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OwnedMutexGuard;

/// Locks of the sandboxes that have an operation in progress.
#[derive(Debug, Default)]
pub(super) struct Locks(Mutex<BTreeMap<SandboxId, Arc<tokio::sync::Mutex<()>>>>);

/// Releases the lock when dropped.
#[derive(Debug)]
pub(super) struct Guard(#[expect(dead_code, reason = "held for its drop")] OwnedMutexGuard<()>);

impl Locks {
    pub(super) async fn lock(&self, name: &SandboxId) -> Guard {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Drop the locks that no operation holds or waits for.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            locks.entry(name.clone()).or_default().clone()
        };
        Guard(lock.lock_owned().await)
    }
}
