//! Waiting before trying again.

use rand::Rng;
use std::time::Duration;

/// How long to wait between tries: twice as long each time, up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first try.
    pub first: Duration,
    /// At most.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(50), most: Duration::from_secs(5) }
    }
}

impl Backoff {
    /// The wait after so many tries (0 for the first). Somewhere between half and all of it, so that many who lost the
    /// same server do not come back together.
    pub fn wait(self, attempt: u32) -> Duration {
        let full = self.first.saturating_mul(1 << attempt.min(20)).min(self.most);
        let full = u64::try_from(full.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(rand::rng().random_range(full / 2..=full))
    }
}

/// The wait of whoever has no wishes of their own: from 50 ms to 5 s.
pub(crate) fn wait(attempt: u32) -> Duration {
    Backoff::default().wait(attempt)
}
