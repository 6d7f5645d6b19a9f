//! Waiting before trying again.

use rand::Rng;
use std::time::Duration;

/// Doubles from 50 ms to 5 s; each wait is somewhere between half and all of it, so that many who lost the same
/// server do not come back together.
pub(crate) fn wait(attempt: u32) -> Duration {
    let full_ms = 50u64.saturating_mul(1 << attempt.min(7)).min(5_000);
    Duration::from_millis(rand::rng().random_range(full_ms / 2..=full_ms))
}
