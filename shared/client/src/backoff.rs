//! Exponential backoff with random jitter.

use domain::backoff::Backoff;
use rand::Rng;
use std::time::Duration;

/// Random delays: clients that lost the same server must not reconnect at the same moment.
pub trait Wait {
    /// The delay after attempt number `attempt`, counted from 0.
    fn wait(self, attempt: u32) -> Duration;
}

impl Wait for Backoff {
    fn wait(self, attempt: u32) -> Duration {
        self.delay(attempt, rand::rng().random_range(0.0..=1.0))
    }
}

/// The default delay: from 50 ms to 5 s.
pub(crate) fn wait(attempt: u32) -> Duration {
    Backoff::default().wait(attempt)
}
