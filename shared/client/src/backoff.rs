//! Exponential backoff with jitter.

use rand::Rng;
use std::time::Duration;

/// Delays between attempts: doubled each time, up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first attempt.
    pub initial: Duration,
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { initial: Duration::from_millis(50), max: Duration::from_secs(5) }
    }
}

impl Backoff {
    /// The delay after attempt number `attempt`, counted from 0. Jitter of up to one half keeps clients that lost the
    /// same server from reconnecting at the same moment.
    pub fn wait(self, attempt: u32) -> Duration {
        let full = self.initial.saturating_mul(1 << attempt.min(20)).min(self.max);
        let full = u64::try_from(full.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(rand::rng().random_range(full / 2..=full))
    }
}

/// The default delay: from 50 ms to 5 s.
pub(crate) fn wait(attempt: u32) -> Duration {
    Backoff::default().wait(attempt)
}
