//! Retrying an optimistic write after a conflict, with jitter.

use crate::Clock;
use crate::error::Error;
use std::time::Duration;

/// Maximum number of attempts before the request fails as unavailable.
const MAX_ATTEMPTS: u32 = 40;

/// Counts the conflicts of one optimistic write.
pub(crate) struct ConflictRetry<'a> {
    clock: &'a dyn Clock,
    conflicts: u32,
}

impl<'a> ConflictRetry<'a> {
    pub(crate) fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, conflicts: 0 }
    }

    /// Picks one of `count` candidates: the first, or after a conflict any of the first few, so that concurrent
    /// writers diverge.
    pub(crate) fn pick(&self, count: usize) -> usize {
        let among = (4 * self.conflicts as usize + 1).min(count).max(1);
        usize::try_from(self.clock.now().as_micros().unsigned_abs()).unwrap_or(0) % among
    }

    /// Another writer committed first. Sleeps for a random time, so that the writers do not collide again.
    pub(crate) async fn conflict(&mut self) -> Result<(), Error> {
        self.conflicts += 1;
        if self.conflicts >= MAX_ATTEMPTS {
            return Err(Error::Unavailable("too many concurrent writers of the same item".into()));
        }
        let spread_ms = 5 * u64::from(self.conflicts.min(10));
        let jitter_ms = self.clock.now().as_micros().unsigned_abs() % spread_ms.max(1);
        tokio::time::sleep(Duration::from_millis(jitter_ms)).await;
        Ok(())
    }
}
