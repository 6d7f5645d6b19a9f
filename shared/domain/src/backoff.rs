//! Exponential backoff with jitter, for everything that is retried.

use std::time::Duration;

/// Delays between attempts: doubled each time, up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Longest delay after the first attempt.
    pub initial: Duration,
    pub max: Duration,
}

/// For requests over a network.
impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_millis(50), Duration::from_secs(5))
    }
}

impl Backoff {
    pub const fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max }
    }

    /// The delay after attempt number `attempt`, counted from 0: from half to all of the time, so that attempts that
    /// failed together are not repeated together. `jitter` is from 0 to 1; the caller chooses it because nothing in this crate is
    /// random.
    pub fn delay(self, attempt: u32, jitter: f64) -> Duration {
        let full = self.initial.saturating_mul(1 << attempt.min(30)).min(self.max);
        let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 1.0 };
        full.mul_f64(0.5 + jitter / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn delay_doubles_up_to_the_limit() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        for (attempt, jitter, expected_ms) in [
            (0, 0.0, 500),
            (0, 0.5, 750),
            (0, 1.0, 1_000),
            (1, 1.0, 2_000),
            (5, 1.0, 32_000),
            (6, 0.0, 30_000),
            (6, 1.0, 60_000),
            (u32::MAX, 1.0, 60_000),
            (0, f64::NAN, 1_000),
            (0, -7.0, 500),
        ] {
            let expected = Duration::from_millis(expected_ms);
            assert_eq!(backoff.delay(attempt, jitter), expected, "{attempt} {jitter}");
        }
    }

    proptest! {
        #[test]
        fn delay_stays_within_bounds_and_never_shrinks(
            attempt in 0u32..100,
            jitter in 0.0..=1.0f64,
            initial_ms in 0u64..100_000,
            max_ms in 0u64..10_000_000,
        ) {
            let backoff = Backoff::new(Duration::from_millis(initial_ms), Duration::from_millis(max_ms));
            let delay = backoff.delay(attempt, jitter);
            prop_assert!(delay <= backoff.max);
            prop_assert!(delay >= backoff.initial.min(backoff.max) / 2);
            prop_assert!(backoff.delay(attempt + 1, jitter) >= delay);
        }
    }
}
