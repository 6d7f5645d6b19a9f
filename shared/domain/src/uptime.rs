//! Since when the plane has been listening without a break.
//!
//! A silence says something of a sandbox only if somebody was there to hear it. A plane that was down, or a laptop that
//! slept, finds old signs of life everywhere when it comes back; without this it would end every healthy sandbox before
//! its worker had the time to say a word. Whoever looks at everything every so often notes when; a gap between two looks
//! is a break, and every silence is counted from the end of the last one.

use crate::Timestamp;
use serde::{Deserialize, Serialize};

/// Looks that are further apart have a break between them. Everything is looked at once a minute at least, and a schedule
/// is late now and then; with a heartbeat that was due half a minute before the break it is still less than the two
/// minutes after which a sandbox is dead.
pub const MAX_GAP_SECS: i64 = 75;

/// What is noted at each look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uptime {
    /// Since when there was no break.
    pub since: Timestamp,
    /// When the last look was.
    pub checked_at: Timestamp,
}

impl Uptime {
    /// What is noted by whoever knows that nobody listened until now.
    pub fn from_now(now: Timestamp) -> Self {
        Self { since: now, checked_at: now }
    }

    /// What is noted by whoever looks now, after what was noted before.
    #[must_use]
    pub fn look(before: Option<&Self>, now: Timestamp) -> Self {
        Self { since: since(before, now), checked_at: now }
    }
}

/// Since when there has been no break, for whoever decides something at `now` by what was noted last.
pub fn since(noted: Option<&Uptime>, now: Timestamp) -> Timestamp {
    match noted {
        Some(noted) if now <= noted.checked_at.plus_secs(MAX_GAP_SECS) => noted.since,
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
    fn a_gap_between_two_looks_is_a_break() {
        let cases: [(&str, &[i64], i64, i64); 7] = [
            ("nobody ever looked", &[], 500, 500),
            ("every minute", &[0, 60, 120, 180], 200, 0),
            ("a little late", &[0, 75, 150], 225, 0),
            ("too late", &[0, 76], 80, 76),
            ("the last look is long ago", &[0, 60], 1_000, 1_000),
            ("an hour of sleep, and awake again", &[0, 2, 3_600, 3_602], 3_604, 3_600),
            ("a clock that is set back", &[1_000, 400, 460], 470, 1_000),
        ];
        for (name, looks, now, expected) in cases {
            let noted = looks
                .iter()
                .fold(None, |before: Option<Uptime>, secs| Some(Uptime::look(before.as_ref(), at(*secs))));
            assert_eq!(since(noted.as_ref(), at(now)), at(expected), "{name}");
        }
        assert_eq!(since(Some(&Uptime::from_now(at(7))), at(8)), at(7));
    }
}
