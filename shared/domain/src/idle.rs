//! When a running sandbox counts as dead, idle or stuck.
//!
//! A pure rule over the stored sandbox, so that a sweep is one read per sandbox. OmoiOS had three bugs here: it checked
//! only sandboxes with recent heartbeats (so dead ones stayed forever), treated a sandbox without any work so far as idle
//! at once, and never checked a running one that had done nothing at all.

use crate::Timestamp;
use std::fmt;

/// Timeouts for sandbox lifecycle stages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thresholds {
    /// Without a heartbeat for this long, the sandbox is dead.
    pub heartbeat_timeout_secs: i64,
    /// Without work for this long, while its heartbeats do not report work, it is idle.
    pub idle_secs: i64,
    /// Without work for this long, while its heartbeats report work, it is stuck.
    pub stuck_running_secs: i64,
    /// Without work for this long, while its heartbeats report that the agent is starting, it is stuck. A worker allows
    /// half an hour for cloning a repository.
    pub stuck_starting_secs: i64,
    /// Timeout for provisioning at the provider.
    pub creating_secs: i64,
    /// Timeout from the start of the worker to its first heartbeat.
    pub start_secs: i64,
    /// Grace period of a worker that lives, from the end of the attempt to the removal of the sandbox: it saves the work of
    /// its agent and sends its last events.
    pub completing_secs: i64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            heartbeat_timeout_secs: 120,
            idle_secs: 600,
            stuck_running_secs: 900,
            stuck_starting_secs: 35 * 60,
            creating_secs: 300,
            start_secs: 180,
            completing_secs: 30,
        }
    }
}

/// What is known about a running sandbox's worker and agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Liveness {
    pub running_since: Timestamp,
    pub last_heartbeat_at: Option<Timestamp>,
    /// The agent's state, as the latest heartbeat reported it.
    pub heartbeat_status: Option<String>,
    /// When an event last showed work.
    pub last_work_at: Option<Timestamp>,
}

/// The decision to end a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    pub reason: Reason,
    /// Time of the last heartbeat or the last work, whichever is overdue.
    pub since: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No heartbeats.
    Dead,
    /// Heartbeats, but no work.
    IdleTimeout,
    /// Heartbeats report work, but no event shows any.
    StuckRunning,
    /// Heartbeats report that the agent is starting, for too long.
    StuckStarting,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::IdleTimeout => "idle_timeout",
            Self::StuckRunning => "stuck_running",
            Self::StuckStarting => "stuck_starting",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a running sandbox must be ended at `now`, and why.
///
/// **Invariant:** no sandbox is ended before the threshold has passed since it began to run, whatever else is known.
pub fn verdict(liveness: &Liveness, now: Timestamp, thresholds: &Thresholds) -> Option<Verdict> {
    // Anything from before it was running does not count.
    let latest = |time: Option<Timestamp>| time.unwrap_or(liveness.running_since).max(liveness.running_since);
    let reports = |statuses: &[&str]| {
        let reported = liveness.heartbeat_status.as_deref();
        reported.is_some_and(|reported| statuses.iter().any(|status| status.eq_ignore_ascii_case(reported)))
    };
    let (reason, secs) = if reports(&BUSY) {
        (Reason::StuckRunning, thresholds.stuck_running_secs)
    } else if reports(&STARTING) {
        (Reason::StuckStarting, thresholds.stuck_starting_secs)
    } else {
        (Reason::IdleTimeout, thresholds.idle_secs)
    };
    let heartbeat = latest(liveness.last_heartbeat_at);
    if now >= heartbeat.plus_secs(thresholds.heartbeat_timeout_secs) {
        return Some(Verdict { reason: Reason::Dead, since: heartbeat });
    }
    let work = latest(liveness.last_work_at);
    (now >= work.plus_secs(secs)).then_some(Verdict { reason, since: work })
}

/// Heartbeat statuses that report work. OmoiOS's worker sends `alive` or `running`.
const BUSY: [&str; 3] = ["running", "working", "alive"];
/// Heartbeat statuses that report a start: the repository is being cloned or the agent is starting.
const STARTING: [&str; 1] = ["starting"];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: i64 = 1_000_000;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(START + secs)
    }

    /// A sandbox that has run since 0.
    fn liveness(heartbeat: Option<i64>, status: Option<&str>, work: Option<i64>) -> Liveness {
        Liveness {
            running_since: at(0),
            last_heartbeat_at: heartbeat.map(at),
            heartbeat_status: status.map(str::to_owned),
            last_work_at: work.map(at),
        }
    }

    #[test]
    fn each_reason_applies_exactly_at_its_threshold() {
        use Reason::{Dead, IdleTimeout, StuckRunning, StuckStarting};
        let cases = [
            // A sandbox that has just started is not ended.
            (None, None, None, 0, None),
            (Some(0), Some("waiting"), None, 0, None),
            (Some(0), Some("working"), None, 0, None),
            // No heartbeat, whatever the status.
            (None, None, None, 119, None),
            (None, None, None, 120, Some((Dead, 0))),
            (Some(100), Some("working"), Some(219), 219, None),
            (Some(100), Some("working"), Some(219), 220, Some((Dead, 100))),
            (Some(100), Some("waiting"), None, 220, Some((Dead, 100))),
            (Some(100), Some("working"), None, 5_000, Some((Dead, 100))),
            // Alive and not busy.
            (Some(599), Some("waiting"), None, 599, None),
            (Some(599), Some("waiting"), None, 600, Some((IdleTimeout, 0))),
            (Some(699), Some("waiting"), Some(100), 699, None),
            (Some(699), Some("waiting"), Some(100), 700, Some((IdleTimeout, 100))),
            (Some(700), None, Some(100), 700, Some((IdleTimeout, 100))),
            (Some(700), Some("paused"), Some(101), 700, None),
            // Alive and busy.
            (Some(700), Some("working"), Some(100), 700, None),
            (Some(899), Some("working"), None, 899, None),
            (Some(899), Some("working"), None, 900, Some((StuckRunning, 0))),
            (Some(999), Some("running"), Some(100), 999, None),
            (Some(999), Some("running"), Some(100), 1_000, Some((StuckRunning, 100))),
            (Some(1_000), Some("alive"), Some(100), 1_000, Some((StuckRunning, 100))),
            (Some(1_000), Some("ALIVE"), Some(100), 1_000, Some((StuckRunning, 100))),
            // Alive and starting: a clone may take half an hour.
            (Some(2_099), Some("starting"), None, 2_099, None),
            (Some(2_099), Some("Starting"), None, 2_100, Some((StuckStarting, 0))),
            (Some(100), Some("starting"), None, 220, Some((Dead, 100))),
            // Anything from before it was running does not count.
            (Some(-500), Some("working"), Some(-5_000), 119, None),
            (Some(500), Some("waiting"), Some(-5_000), 599, None),
            // A clock that is behind.
            (Some(0), Some("waiting"), Some(0), -100, None),
        ];
        for (heartbeat, status, work, now, expected) in cases {
            let liveness = liveness(heartbeat, status, work);
            let expected = expected.map(|(reason, since)| Verdict { reason, since: at(since) });
            assert_eq!(
                verdict(&liveness, at(now), &Thresholds::default()),
                expected,
                "{liveness:?} at {now}"
            );
        }
    }

    #[test]
    fn thresholds_can_be_configured() {
        let quick = Thresholds {
            idle_secs: 5,
            stuck_running_secs: 7,
            heartbeat_timeout_secs: 3,
            ..Thresholds::default()
        };
        let reason = |heartbeat, status, now| {
            verdict(&liveness(Some(heartbeat), Some(status), None), at(now), &quick)
                .map(|verdict| verdict.reason)
        };
        assert_eq!(reason(5, "waiting", 5), Some(Reason::IdleTimeout));
        assert_eq!(reason(5, "working", 5), None);
        assert_eq!(reason(7, "working", 7), Some(Reason::StuckRunning));
        assert_eq!(reason(5, "working", 8), Some(Reason::Dead));
    }

    proptest! {
        #[test]
        fn a_verdict_is_never_early_and_holds_until_new_activity(
            heartbeat in proptest::option::of(-2_000..2_000i64),
            work in proptest::option::of(-2_000..2_000i64),
            status in proptest::option::of(proptest::sample::select(vec!["working", "waiting", "alive", "starting", ""])),
            now in -2_000..4_000i64,
            later in 0..2_000i64,
        ) {
            let thresholds = Thresholds::default();
            let liveness = liveness(heartbeat, status, work);
            if let Some(first) = verdict(&liveness, at(now), &thresholds) {
                prop_assert!(now >= 120 && first.since <= at(now - 120));
                prop_assert!(verdict(&liveness, at(now + later), &thresholds).is_some());
            }
        }
    }
}
