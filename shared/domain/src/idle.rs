//! When a running sandbox is given up.
//!
//! A pure rule over what the head knows, so that a sweep is one read per sandbox. It differs from OmoiOS where that
//! looked only at sandboxes that still showed life (so that dead ones stayed for ever), took those that had not worked
//! yet for idle at once, and never looked at a running one that had done nothing at all.

use crate::Timestamp;
use std::fmt;

/// How long each state may last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thresholds {
    /// Without a heartbeat for this long, it is dead.
    pub heartbeat_timeout_secs: i64,
    /// Without work for this long, and not busy by its own account, it is idle.
    pub idle_secs: i64,
    /// Without work for this long, though busy by its own account, it is stuck.
    pub stuck_running_secs: i64,
    /// Without work for this long, though its agent is still coming up by its own account, it is stuck. A worker gives
    /// the clone of a repository half an hour.
    pub stuck_starting_secs: i64,
    /// How long a provider may take to make it.
    pub creating_secs: i64,
    /// How long its worker may take from being started to the first heartbeat.
    pub start_secs: i64,
    /// How long it is left to its worker after the agent is done.
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

/// What the head of a running sandbox tells of its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signs {
    /// Since when it is running.
    pub running_since: Timestamp,
    /// The latest heartbeat.
    pub last_heartbeat_at: Option<Timestamp>,
    /// What that said of the agent.
    pub heartbeat_status: Option<String>,
    /// When something that shows work last came in.
    pub last_work_at: Option<Timestamp>,
}

/// That a sandbox is to be given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Why.
    pub reason: Reason,
    /// Since when it has been so: the last sign of what is missing.
    pub since: Timestamp,
}

/// Why a sandbox is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It shows no life.
    Dead,
    /// It lives, and does not work.
    IdleTimeout,
    /// It says that it works, and nothing comes of it.
    StuckRunning,
    /// It says that its agent comes up, and it does not.
    StuckStarting,
}

impl Reason {
    /// As on the wire.
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

/// Whether a running sandbox is to be given up at `now`, and why.
///
/// **Invariant:** nothing is given up before the threshold has passed since it began to run, whatever else is known.
pub fn verdict(signs: &Signs, now: Timestamp, thresholds: &Thresholds) -> Option<Verdict> {
    // What came before it ran says nothing of how it runs.
    let latest = |sign: Option<Timestamp>| sign.unwrap_or(signs.running_since).max(signs.running_since);
    let says = |words: &[&str]| {
        let status = signs.heartbeat_status.as_deref();
        status.is_some_and(|status| words.iter().any(|word| word.eq_ignore_ascii_case(status)))
    };
    let (reason, secs) = if says(&BUSY) {
        (Reason::StuckRunning, thresholds.stuck_running_secs)
    } else if says(&STARTING) {
        (Reason::StuckStarting, thresholds.stuck_starting_secs)
    } else {
        (Reason::IdleTimeout, thresholds.idle_secs)
    };
    let heartbeat = latest(signs.last_heartbeat_at);
    if now >= heartbeat.plus_secs(thresholds.heartbeat_timeout_secs) {
        return Some(Verdict { reason: Reason::Dead, since: heartbeat });
    }
    let work = latest(signs.last_work_at);
    (now >= work.plus_secs(secs)).then_some(Verdict { reason, since: work })
}

/// How a worker says that its agent is at work. OmoiOS's worker says `alive` or `running`.
const BUSY: [&str; 3] = ["running", "working", "alive"];
/// How it says that it is not there yet: the repository is cloned, the agent comes up.
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
    fn signs(heartbeat: Option<i64>, status: Option<&str>, work: Option<i64>) -> Signs {
        Signs {
            running_since: at(0),
            last_heartbeat_at: heartbeat.map(at),
            heartbeat_status: status.map(str::to_owned),
            last_work_at: work.map(at),
        }
    }

    #[test]
    fn each_reason_has_its_threshold_and_its_moment() {
        use Reason::{Dead, IdleTimeout, StuckRunning, StuckStarting};
        let cases = [
            // Nothing is given up because it has only just begun.
            (None, None, None, 0, None),
            (Some(0), Some("waiting"), None, 0, None),
            (Some(0), Some("working"), None, 0, None),
            // No heartbeat, whatever else.
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
            // Alive and coming up: a clone may take half an hour.
            (Some(2_099), Some("starting"), None, 2_099, None),
            (Some(2_099), Some("Starting"), None, 2_100, Some((StuckStarting, 0))),
            (Some(100), Some("starting"), None, 220, Some((Dead, 100))),
            // What came before it ran does not count against it.
            (Some(-500), Some("working"), Some(-5_000), 119, None),
            (Some(500), Some("waiting"), Some(-5_000), 599, None),
            // A clock that is behind.
            (Some(0), Some("waiting"), Some(0), -100, None),
        ];
        for (heartbeat, status, work, now, expected) in cases {
            let signs = signs(heartbeat, status, work);
            let expected = expected.map(|(reason, since)| Verdict { reason, since: at(since) });
            assert_eq!(verdict(&signs, at(now), &Thresholds::default()), expected, "{signs:?} at {now}");
        }
    }

    #[test]
    fn thresholds_are_settings() {
        let quick = Thresholds {
            idle_secs: 5,
            stuck_running_secs: 7,
            heartbeat_timeout_secs: 3,
            ..Thresholds::default()
        };
        let reason = |heartbeat, status, now| {
            verdict(&signs(Some(heartbeat), Some(status), None), at(now), &quick)
                .map(|verdict| verdict.reason)
        };
        assert_eq!(reason(5, "waiting", 5), Some(Reason::IdleTimeout));
        assert_eq!(reason(5, "working", 5), None);
        assert_eq!(reason(7, "working", 7), Some(Reason::StuckRunning));
        assert_eq!(reason(5, "working", 8), Some(Reason::Dead));
    }

    proptest! {
        #[test]
        fn a_verdict_stays_until_there_is_a_sign_and_is_never_early(
            heartbeat in proptest::option::of(-2_000..2_000i64),
            work in proptest::option::of(-2_000..2_000i64),
            status in proptest::option::of(proptest::sample::select(vec!["working", "waiting", "alive", "starting", ""])),
            now in -2_000..4_000i64,
            later in 0..2_000i64,
        ) {
            let thresholds = Thresholds::default();
            let signs = signs(heartbeat, status, work);
            if let Some(first) = verdict(&signs, at(now), &thresholds) {
                prop_assert!(now >= 120 && first.since <= at(now - 120));
                prop_assert!(verdict(&signs, at(now + later), &thresholds).is_some());
            }
        }
    }
}
