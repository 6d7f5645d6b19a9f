//! Turns: one thing at a time is done to a sandbox, and different ones do not wait for each other.

use domain::SandboxId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OwnedMutexGuard;

/// Whose turn it is, for each sandbox to which something is done.
#[derive(Debug, Default)]
pub(super) struct Locks(Mutex<BTreeMap<SandboxId, Arc<tokio::sync::Mutex<()>>>>);

/// A turn. Dropping it lets the next one have theirs.
#[derive(Debug)]
pub(super) struct Turn(#[expect(dead_code, reason = "held, not looked at")] OwnedMutexGuard<()>);

impl Locks {
    /// Waits for a turn.
    pub(super) async fn turn(&self, name: &SandboxId) -> Turn {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody holds and nobody waits for.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            turns.entry(name.clone()).or_default().clone()
        };
        Turn(turn.lock_owned().await)
    }
}
