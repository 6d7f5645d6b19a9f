//! How long the steps of making and removing a sandbox may take, and how often somebody looks how far they are. All the
//! numbers are here, because each is bounded by the next.

use crate::Timestamp;
use crate::attempt::Stage;

/// Between the end of the time for a stage and the end of the lease on it: what came of it is written down.
const LEASE_SLACK_SECS: i64 = 15;
/// No job that tends a sandbox begins what it cannot end by then; what is left is another job's. A function on AWS has
/// half a minute more (`template.yaml`; `tests/it/template.rs` compares).
pub const JOB_SECS: i64 = 210;
/// No wait that a provider asks for is longer.
pub const MAX_RETRY_AFTER_SECS: u64 = 300;
/// How long to wait for a provider that asks for it and does not say how long.
pub const USUAL_RETRY_AFTER_SECS: u64 = 10;

/// How soon to look again at what a provider has been making for so long: often at first, and then a quarter of that.
pub fn poll_interval_ms(since: Timestamp, now: Timestamp) -> i64 {
    ((now.as_micros() - since.as_micros()) / 4_000).clamp(1_000, 10_000)
}

/// How soon to look again whether a sandbox is gone, after so many looks: 2, 4, 8, … seconds, a minute at most.
pub fn removal_wait_secs(looks: u32) -> u64 {
    (1 << looks.clamp(1, 6)).min(60)
}

impl Stage {
    /// Whoever does this stage has so long for it; what takes longer has failed and is tried again later.
    pub fn most_secs(self) -> i64 {
        match self {
            // The worker's program goes over the line, however slow that is.
            Self::Uploading => 150,
            _ => 45,
        }
    }

    /// For so long the stage is theirs: longer than they have for it, so that nobody begins it a second time meanwhile.
    pub fn lease_secs(self) -> i64 {
        self.most_secs() + LEASE_SLACK_SECS
    }

    /// Whether it can still be done by a job that has been at it for so long.
    pub fn fits(self, spent_secs: i64) -> bool {
        spent_secs + self.most_secs() <= JOB_SECS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_over_before_its_lease_and_a_job_before_it_is_cut_off() {
        let mut stage = Some(Stage::Recorded);
        while let Some(one) = stage {
            assert!(one.most_secs() < one.lease_secs() && one.lease_secs() < JOB_SECS, "{one:?}");
            assert!(one.fits(0) && one.fits(JOB_SECS - one.most_secs()), "{one:?}");
            assert!(!one.fits(JOB_SECS - one.most_secs() + 1), "{one:?}");
            stage = one.next();
        }
    }

    #[test]
    fn whoever_waits_looks_less_and_less_often() {
        let at = Timestamp::from_secs;
        let looks = [(0, 1_000), (4, 1_000), (8, 2_000), (20, 5_000), (40, 10_000), (3_000, 10_000)];
        for (secs, expected) in looks {
            assert_eq!(poll_interval_ms(at(100), at(100 + secs)), expected, "{secs}");
        }
        assert_eq!(poll_interval_ms(at(100), at(0)), 1_000);
        let waits: Vec<u64> = (0..9).map(removal_wait_secs).collect();
        assert_eq!(waits, [2, 2, 4, 8, 16, 32, 60, 60, 60]);
    }
}
