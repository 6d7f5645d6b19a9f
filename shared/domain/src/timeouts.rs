//! Timeouts and polling intervals for provisioning and deleting a sandbox. All the numbers are here, because each is
//! bounded by the next.

use crate::Timestamp;
use crate::attempt::Stage;
use crate::backoff::Backoff;
use std::time::Duration;

/// From the timeout of a stage to the end of its lease: the time to record the result.
const LEASE_SLACK_SECS: i64 = 15;
/// Time budget of a reconcile job. A job does not begin a stage that may exceed it and leaves that stage to the next
/// job. The Lambda function has half a minute more (`template.yaml`; `tests/it/template.rs` compares them).
pub const JOB_SECS: i64 = 210;
/// Upper limit for the `Retry-After` of a provider.
pub const MAX_RETRY_AFTER_SECS: u64 = 300;
/// Wait for a provider that is rate limiting without a `Retry-After`.
pub const DEFAULT_RETRY_AFTER_SECS: u64 = 10;

/// Interval between polls of a sandbox that the provider has been creating since then: a quarter of the elapsed time.
pub fn poll_interval_ms(since: Timestamp, now: Timestamp) -> i64 {
    ((now.as_micros() - since.as_micros()) / 4_000).clamp(1_000, 10_000)
}

const DELETION_CHECKS: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));

/// Wait before the next check whether a sandbox is deleted, after this many checks: 2, 4, 8, … seconds, up to a minute.
/// `jitter` is from 0 to 1.
pub fn deletion_wait_secs(checks: u32, jitter: f64) -> f64 {
    DELETION_CHECKS.delay(checks.saturating_sub(1), jitter).as_secs_f64()
}

impl Stage {
    /// A stage that takes longer has failed and is retried later.
    pub fn timeout_secs(self) -> i64 {
        match self {
            // The worker binary is uploaded, possibly over a slow connection.
            Self::Uploading => 150,
            _ => 45,
        }
    }

    /// Longer than the timeout, so that no other process begins the same stage meanwhile.
    pub fn lease_secs(self) -> i64 {
        self.timeout_secs() + LEASE_SLACK_SECS
    }

    /// Whether a job that has already spent this long has time left for the stage.
    pub fn fits_in_job(self, spent_secs: i64) -> bool {
        spent_secs + self.timeout_secs() <= JOB_SECS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_times_out_before_its_lease_and_within_a_job() {
        let mut stage = Some(Stage::Recorded);
        while let Some(current) = stage {
            assert!(
                current.timeout_secs() < current.lease_secs() && current.lease_secs() < JOB_SECS,
                "{current:?}"
            );
            assert!(
                current.fits_in_job(0) && current.fits_in_job(JOB_SECS - current.timeout_secs()),
                "{current:?}"
            );
            assert!(!current.fits_in_job(JOB_SECS - current.timeout_secs() + 1), "{current:?}");
            stage = current.next();
        }
    }

    #[test]
    fn polling_slows_down_over_time() {
        let at = Timestamp::from_secs;
        let polls = [(0, 1_000), (4, 1_000), (8, 2_000), (20, 5_000), (40, 10_000), (3_000, 10_000)];
        for (secs, expected) in polls {
            assert_eq!(poll_interval_ms(at(100), at(100 + secs)), expected, "{secs}");
        }
        assert_eq!(poll_interval_ms(at(100), at(0)), 1_000);
        let waits: Vec<f64> = (0..9).map(|checks| deletion_wait_secs(checks, 1.0)).collect();
        assert_eq!(waits, [2.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]);
    }
}
