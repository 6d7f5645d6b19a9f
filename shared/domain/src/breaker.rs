//! A circuit breaker: after a few consecutive failures, no request goes to a provider for a while; then a single probe
//! does.
//!
//! Without it every waiting task would use up its retries on a provider that is down. It is an item in the table, so all
//! processes share it; they write the value that a function here returns.

use crate::Timestamp;
use crate::backoff::Backoff;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Number of consecutive failures that open the breaker.
pub const FAILURES_TO_OPEN: u32 = 5;
/// How long the breaker stays open. Doubles while probes fail.
const OPEN: Backoff = Backoff::new(Duration::from_secs(30), Duration::from_secs(600));
/// Always the full time: a plane sends one probe, so there are no requests to spread.
const JITTER: f64 = 1.0;

/// State of the circuit breaker for one provider. Closed by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Breaker {
    /// Failures since the last success.
    pub failures: u32,
    /// Present while the breaker is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opened: Option<Opened>,
    /// How often it has opened since the last success.
    pub times_opened: u32,
    /// When a success last closed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// Grows with every write: a write is conditional on the version that was read, so only one process gets to probe.
    pub version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    pub at: Timestamp,
    /// No request is sent before this time.
    pub until: Timestamp,
    /// A probe was sent, and its result is not known yet.
    #[serde(default)]
    pub probing: bool,
}

/// Whether a request may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allow {
    Yes,
    /// One request may be sent, by the process that first writes [`Breaker::probing`].
    Probe,
    No {
        until: Timestamp,
    },
}

impl Breaker {
    pub fn allows(&self, now: Timestamp) -> Allow {
        match &self.opened {
            None => Allow::Yes,
            Some(opened) if now < opened.until => Allow::No { until: opened.until },
            Some(_) => Allow::Probe,
        }
    }

    /// The breaker while one process probes. All others wait for the open time again, so a probe whose result is lost
    /// only delays the next one.
    #[must_use]
    pub fn probing(&self, now: Timestamp) -> Self {
        let mut next = self.clone();
        if let Some(opened) = &mut next.opened {
            opened.until = now.plus_secs(open_secs(self.times_opened));
            opened.probing = true;
        }
        next
    }

    /// The breaker after a successful request. One success closes it. A closed breaker without failures stays equal, and
    /// the caller writes nothing.
    #[must_use]
    pub fn succeeded(&self, now: Timestamp) -> Self {
        let closed_at = if self.opened.is_some() { Some(now) } else { self.closed_at };
        Self { failures: 0, opened: None, times_opened: 0, closed_at, version: self.version }
    }

    /// The breaker after a failure of the provider itself. Invalid requests do not count: they would fail anywhere.
    /// Neither does rate limiting: a provider that limits requests is up, and names the time to wait.
    #[must_use]
    pub fn failed(&self, now: Timestamp) -> Self {
        let mut next = self.clone();
        next.failures = self.failures.saturating_add(1);
        let opens = match &self.opened {
            None => next.failures >= FAILURES_TO_OPEN,
            // A request from before it opened may fail after: that adds no information.
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
    let open = OPEN.delay(times_opened.saturating_sub(1), JITTER);
    i64::try_from(open.as_secs()).unwrap_or(i64::MAX)
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

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Fails,
        Works,
        Probes,
    }
    use Step::{Fails, Probes, Works};

    #[test]
    fn breaker_opens_after_consecutive_failures_and_closes_on_success() {
        let five: Vec<(i64, Step)> = (0..5).map(|secs| (secs, Fails)).collect();
        let with = |more: &[(i64, Step)]| [five.as_slice(), more].concat();
        let cases = [
            ("nothing happened", vec![], 0, Allow::Yes),
            ("four failures", five[..4].to_vec(), 4, Allow::Yes),
            ("five failures", five.clone(), 5, no(34)),
            ("until the last second", five.clone(), 33, no(34)),
            ("then one may probe", five.clone(), 34, Allow::Probe),
            ("a success between", [&five[..4], &[(4, Works)], &five[..4]].concat(), 9, Allow::Yes),
            ("late failures are ignored", with(&[(10, Fails), (33, Fails)]), 33, no(34)),
            ("a late success closes it", with(&[(10, Works)]), 10, Allow::Yes),
            ("others wait for the probe", with(&[(40, Probes)]), 41, no(70)),
            ("a probe without a result", with(&[(40, Probes)]), 70, Allow::Probe),
            ("a probe that fails", with(&[(40, Probes), (50, Fails)]), 50, no(110)),
            ("a failure without a recorded probe", with(&[(40, Fails)]), 50, no(100)),
            ("a probe that works", with(&[(40, Probes), (50, Works)]), 50, Allow::Yes),
            (
                "closing resets the open time",
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
    fn open_time_doubles_up_to_ten_minutes() {
        let mut breaker = (0..5).fold(Breaker::default(), |breaker, _| breaker.failed(at(0)));
        let mut lengths = Vec::new();
        for _ in 0..40 {
            let opened = breaker.opened.clone().unwrap();
            lengths.push(opened.until.as_secs() - opened.at.as_secs());
            breaker = breaker.probing(opened.until).failed(opened.until);
        }
        assert_eq!(lengths[..6], [30, 60, 120, 240, 480, 600]);
        assert!(lengths[6..].iter().all(|secs| *secs == 600));
    }

    #[test]
    fn success_does_not_change_a_closed_breaker() {
        let breaker = Breaker::default();
        assert_eq!(breaker.succeeded(at(1)), breaker);
        assert_eq!(breaker.probing(at(1)), breaker);
    }

    #[test]
    fn items_of_other_versions_can_be_read() {
        let open = (0..5).fold(Breaker::default(), |breaker, _| breaker.failed(at(0)));
        let text = serde_json::to_string(&open).unwrap();
        assert_eq!(serde_json::from_str::<Breaker>(&text).unwrap(), open);
        assert_eq!(serde_json::from_str::<Breaker>("{}").unwrap(), Breaker::default());
        let old =
            r#"{"failures":5,"opened":{"at":"1970-01-01T00:00:00Z","until":"1970-01-01T00:00:30Z"},"new":1}"#;
        assert_eq!(serde_json::from_str::<Breaker>(old).unwrap().allows(at(3)), no(30));
    }
}
