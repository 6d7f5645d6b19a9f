//! A circuit breaker: after a few failures in a row nobody asks a provider for a while, and then one asks first.
//!
//! Without it every waiting task would burn its retries on a provider that is down. It is a value in the table, so all
//! functions share one; whoever changes it writes what a function here gives back.

use crate::Timestamp;
use serde::{Deserialize, Serialize};

/// So many failures in a row open it.
pub const FAILURES_TO_OPEN: u32 = 5;
/// How long it stays open at first. Doubles while probes fail.
pub const FIRST_OPEN_SECS: i64 = 30;
/// How long it stays open at most.
pub const MAX_OPEN_SECS: i64 = 600;

/// How a provider has answered lately. Closed, and without a past, by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Breaker {
    /// Failures since the last success.
    pub failures: u32,
    /// Present while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opened: Option<Opened>,
    /// How often in a row it opened without a success between.
    pub times_opened: u32,
    /// When a success last closed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// Moves with every write; whoever writes names the one that they read. So of those who want to probe one does.
    pub version: u64,
}

/// An open breaker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// Since when.
    pub at: Timestamp,
    /// Nobody asks before this.
    pub until: Timestamp,
    /// Somebody has been let through, and nothing is known of the answer.
    #[serde(default)]
    pub probing: bool,
}

/// Whether to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allow {
    /// As usual.
    Yes,
    /// One may, to see: whoever writes [`Breaker::probing`] first.
    Probe,
    /// Nobody, until then.
    No {
        /// When it is worth looking again.
        until: Timestamp,
    },
}

impl Breaker {
    /// Whether to ask the provider at `now`.
    pub fn allows(&self, now: Timestamp) -> Allow {
        match &self.opened {
            None => Allow::Yes,
            Some(opened) if now < opened.until => Allow::No { until: opened.until },
            Some(_) => Allow::Probe,
        }
    }

    /// After somebody took it upon them to probe. The others wait as long as they just did; so a probe that nobody hears
    /// of again delays the next one and no more.
    #[must_use]
    pub fn probing(&self, now: Timestamp) -> Self {
        let mut next = self.clone();
        if let Some(opened) = &mut next.opened {
            opened.until = now.plus_secs(open_secs(self.times_opened));
            opened.probing = true;
        }
        next
    }

    /// After the provider did as it was asked. One success closes; on a closed breaker without failures it changes
    /// nothing, and then there is nothing to write.
    #[must_use]
    pub fn succeeded(&self, now: Timestamp) -> Self {
        let closed_at = if self.opened.is_some() { Some(now) } else { self.closed_at };
        Self { failures: 0, opened: None, times_opened: 0, closed_at, version: self.version }
    }

    /// After the provider failed through its own fault. A refusal of what was asked is no failure: it would be refused
    /// anywhere. Neither is that we ask too much: whoever says so is well, and says until when to wait.
    #[must_use]
    pub fn failed(&self, now: Timestamp) -> Self {
        let mut next = self.clone();
        next.failures = self.failures.saturating_add(1);
        let opens = match &self.opened {
            None => next.failures >= FAILURES_TO_OPEN,
            // What was asked before it opened may fail after: that is old news.
            Some(opened) => opened.probing || now >= opened.until,
        };
        if opens {
            next.times_opened = self.times_opened.saturating_add(1);
            let until = now.plus_secs(open_secs(next.times_opened));
            next.opened = Some(Opened { at: now, until, probing: false });
        }
        next
    }
}

fn open_secs(times_opened: u32) -> i64 {
    let doublings = times_opened.saturating_sub(1).min(10);
    (FIRST_OPEN_SECS << doublings).min(MAX_OPEN_SECS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn no(until: i64) -> Allow {
        Allow::No { until: at(until) }
    }

    /// What happens to a breaker.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Fails,
        Works,
        Probes,
    }
    use Step::{Fails, Probes, Works};

    #[test]
    fn it_opens_after_failures_in_a_row_and_closes_with_a_success() {
        let five: Vec<(i64, Step)> = (0..5).map(|secs| (secs, Fails)).collect();
        let with = |more: &[(i64, Step)]| [five.as_slice(), more].concat();
        let cases = [
            ("nothing happened", vec![], 0, Allow::Yes),
            ("four failures", five[..4].to_vec(), 4, Allow::Yes),
            ("five failures", five.clone(), 5, no(34)),
            ("until the last moment", five.clone(), 33, no(34)),
            ("then somebody may probe", five.clone(), 34, Allow::Probe),
            ("a success between", [&five[..4], &[(4, Works)], &five[..4]].concat(), 9, Allow::Yes),
            ("late failures are old news", with(&[(10, Fails), (33, Fails)]), 33, no(34)),
            ("a late success is good news", with(&[(10, Works)]), 10, Allow::Yes),
            ("the others wait for the probe", with(&[(40, Probes)]), 41, no(70)),
            ("a probe that nobody hears of", with(&[(40, Probes)]), 70, Allow::Probe),
            ("a probe that fails", with(&[(40, Probes), (50, Fails)]), 50, no(110)),
            ("a failure of one who did not say so", with(&[(40, Fails)]), 50, no(100)),
            ("a probe that works", with(&[(40, Probes), (50, Works)]), 50, Allow::Yes),
            (
                "it forgets once closed",
                [with(&[(40, Probes), (50, Fails), (110, Works)]), five.clone()].concat(),
                111,
                Allow::Probe,
            ),
        ];
        for (name, steps, now, expected) in cases {
            let breaker = steps.iter().fold(Breaker::default(), |breaker, (secs, step)| match step {
                Fails => breaker.failed(at(*secs)),
                Works => breaker.succeeded(at(*secs)),
                Probes => breaker.probing(at(*secs)),
            });
            assert_eq!(breaker.allows(at(now)), expected, "{name}: {breaker:?}");
        }
    }

    #[test]
    fn it_stays_open_twice_as_long_each_time_up_to_ten_minutes() {
        let mut breaker = (0..5).fold(Breaker::default(), |breaker, _| breaker.failed(at(0)));
        let mut lengths = Vec::new();
        for _ in 0..40 {
            let opened = breaker.opened.clone().unwrap();
            lengths.push(opened.until.as_secs() - opened.at.as_secs());
            breaker = breaker.probing(opened.until).failed(opened.until);
        }
        assert_eq!(lengths[..6], [30, 60, 120, 240, 480, 600]);
        assert!(lengths[6..].iter().all(|secs| *secs == MAX_OPEN_SECS));
    }

    #[test]
    fn there_is_nothing_to_write_while_all_is_well() {
        let breaker = Breaker::default();
        assert_eq!(breaker.succeeded(at(1)), breaker);
        assert_eq!(breaker.probing(at(1)), breaker);
    }

    #[test]
    fn what_another_version_wrote_can_be_read() {
        let open = (0..5).fold(Breaker::default(), |breaker, _| breaker.failed(at(0)));
        let text = serde_json::to_string(&open).unwrap();
        assert_eq!(serde_json::from_str::<Breaker>(&text).unwrap(), open);
        assert_eq!(serde_json::from_str::<Breaker>("{}").unwrap(), Breaker::default());
        let old =
            r#"{"failures":5,"opened":{"at":"1970-01-01T00:00:00Z","until":"1970-01-01T00:00:30Z"},"new":1}"#;
        assert_eq!(serde_json::from_str::<Breaker>(old).unwrap().allows(at(3)), no(30));
    }
}
