//! Since when the plane has been up without a break.
//!
//! A missing heartbeat means something only if the plane was up to receive it. After an outage, or after a laptop slept,
//! all heartbeats are old; without this rule the plane would end every healthy sandbox before its worker could reconnect.
//! Each sweep records its time. A gap between two sweeps is a break, and timeouts are counted from the end of the last
//! break.

use crate::Timestamp;
use serde::{Deserialize, Serialize};

/// A longer gap between two sweeps is a break. A sweep runs at least once a minute, and a schedule may be late. Together
/// with a heartbeat that was due half a minute before the break, this is less than the two minutes after which a sandbox
/// counts as dead.
pub const MAX_GAP_SECS: i64 = 75;

/// The record that each sweep updates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uptime {
    /// End of the last break.
    pub since: Timestamp,
    /// Time of the last sweep.
    pub checked_at: Timestamp,
}

impl Uptime {
    /// The record of a plane that has just started.
    pub fn from_now(now: Timestamp) -> Self {
        Self { since: now, checked_at: now }
    }

    /// The record after a sweep at `now`.
    #[must_use]
    pub fn checked(before: Option<&Self>, now: Timestamp) -> Self {
        Self { since: since(before, now), checked_at: now }
    }
}

/// Since when the plane has been up, according to the record of the last sweep.
pub fn since(last: Option<&Uptime>, now: Timestamp) -> Timestamp {
    match last {
        Some(last) if now <= last.checked_at.plus_secs(MAX_GAP_SECS) => last.since,
        _ => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn a_gap_between_two_sweeps_is_a_break() {
        let cases: [(&str, &[i64], i64, i64); 7] = [
            ("no sweep yet", &[], 500, 500),
            ("every minute", &[0, 60, 120, 180], 200, 0),
            ("a little late", &[0, 75, 150], 225, 0),
            ("too late", &[0, 76], 80, 76),
            ("the last sweep was long ago", &[0, 60], 1_000, 1_000),
            ("resumed after an hour of sleep", &[0, 2, 3_600, 3_602], 3_604, 3_600),
            ("a clock that was set back", &[1_000, 400, 460], 470, 1_000),
        ];
        for (name, sweeps, now, expected) in cases {
            let last = sweeps
                .iter()
                .fold(None, |before: Option<Uptime>, secs| Some(Uptime::checked(before.as_ref(), at(*secs))));
            assert_eq!(since(last.as_ref(), at(now)), at(expected), "{name}");
        }
        assert_eq!(since(Some(&Uptime::from_now(at(7))), at(8)), at(7));
    }
}
