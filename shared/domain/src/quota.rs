//! Quotas: how much may be written within a minute, in events and in bytes.
//!
//! A process counts what it has admitted. If several processes share a quota, each admits a small share of it by itself
//! and needs a grant for more; grants never exceed the quota. So what all of them admit in a minute is at most the quota
//! and one such share for each process.

use crate::access::Principal;
use crate::{Invalid, OrgId, Sandbox, SandboxId, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A number of events and their size: a quota, or a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    pub events: u64,
    pub bytes: u64,
}

impl Amount {
    pub const fn new(events: u64, bytes: u64) -> Self {
        Self { events, bytes }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::new(self.events.saturating_add(other.events), self.bytes.saturating_add(other.bytes))
    }

    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self::new(self.events.saturating_sub(other.events), self.bytes.saturating_sub(other.bytes))
    }

    /// Whether it exceeds `other` in neither dimension.
    pub fn fits(self, other: Self) -> bool {
        self.events <= other.events && self.bytes <= other.bytes
    }

    fn each(self, other: Self, choose: impl Fn(u64, u64) -> u64) -> Self {
        Self::new(choose(self.events, other.events), choose(self.bytes, other.bytes))
    }

    fn divided(self, by: u64) -> Self {
        Self::new(self.events / by, self.bytes / by)
    }
}

/// `60000/64M`: events and bytes. K, M and G are powers of 1,024.
impl FromStr for Amount {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let parsed = || {
            let (events, bytes) = text.split_once('/')?;
            let (digits, unit) = match bytes.char_indices().last()? {
                (end, 'K') => (&bytes[..end], 1 << 10),
                (end, 'M') => (&bytes[..end], 1 << 20),
                (end, 'G') => (&bytes[..end], 1 << 30),
                _ => (bytes, 1),
            };
            Some(Self::new(number(events)?, number(digits)?.checked_mul(unit)?))
        };
        parsed().ok_or_else(|| {
            Invalid::new("quota", "must be EVENTS/BYTES per minute, such as 60000/64M, both at least 1")
        })
    }
}

fn number(digits: &str) -> Option<u64> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|number| is_number && *number > 0)
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("G", 1_u64 << 30), ("M", 1 << 20), ("K", 1 << 10), ("", 1)];
        let is_whole = |unit: u64| self.bytes >= unit && self.bytes.is_multiple_of(unit);
        let (name, unit) = units.into_iter().find(|(_, unit)| is_whole(*unit)).unwrap_or(("", 1));
        write!(f, "{}/{}{name}", self.events, self.bytes / unit)
    }
}

/// The quotas of a plane, each per minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Of each sandbox: what is posted to it.
    pub sandbox: Amount,
    /// Of each org: what its sandboxes report and its users send.
    pub org: Amount,
    /// Of each user.
    pub user: Amount,
    /// Of each operator.
    pub operator: Amount,
    /// Whether several processes serve the plane, and count together.
    pub shared: bool,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            // A busy agent sends about two events per second, of 600 bytes; this stops a runaway one.
            sandbox: Amount::new(60_000, 64 << 20),
            // Ten sandboxes at their quota: as many as may work on tasks of an org at once by default.
            org: Amount::new(600_000, 640 << 20),
            // Ten changes per second.
            user: Amount::new(600, 16 << 20),
            // OmoiOS acts for all of its orgs as one operator.
            operator: Amount::new(6_000_000, 6 << 30),
            shared: true,
        }
    }
}

/// Whose quota a request uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum QuotaOwner {
    /// Everything that a worker sends but its events.
    Sandbox(SandboxId),
    Org(OrgId),
    User(OrgId, String),
    Operator(String),
}

impl QuotaOwner {
    /// The quotas that a request of this principal uses, besides that of the org of a worker.
    pub fn of(principal: &Principal) -> Vec<Self> {
        match principal {
            Principal::Worker { sandbox, .. } => vec![Self::Sandbox(sandbox.clone())],
            Principal::User { org, id, .. } => {
                vec![Self::User(org.clone(), id.clone()), Self::Org(org.clone())]
            }
            Principal::Operator { name } => vec![Self::Operator(name.clone())],
            Principal::Anonymous => Vec::new(),
        }
    }

    /// The org of a worker's sandbox. A worker's token does not name it, so the use case that reads the sandbox charges it.
    pub fn org_of_worker(principal: &Principal, sandbox: &Sandbox) -> Option<Self> {
        matches!(principal, Principal::Worker { .. }).then(|| Self::Org(sandbox.org.clone()))
    }

    pub fn quota(&self, quotas: &Quotas) -> Amount {
        match self {
            Self::Sandbox(_) => quotas.sandbox,
            Self::Org(_) => quotas.org,
            Self::User(..) => quotas.user,
            Self::Operator(_) => quotas.operator,
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sandbox(_) => "sandbox",
            Self::Org(_) => "org",
            Self::User(..) => "user",
            Self::Operator(_) => "operator",
        }
    }

    /// Unique within its kind: an org has no `#` in its id.
    pub fn id(&self) -> String {
        match self {
            Self::Sandbox(sandbox) => sandbox.to_string(),
            Self::Org(org) => org.to_string(),
            Self::User(org, id) => format!("{org}#{id}"),
            Self::Operator(name) => name.clone(),
        }
    }
}

/// A process admits a thousandth of a shared quota without a grant, because an AWS account runs a thousand functions at once
/// unless it has asked for more. So all of them together stay below twice the quota. A grant is not larger than needed or
/// than that: what one process does not use is missing for the others.
const SHARES: u64 = 1_000;

/// What a process has admitted within a minute, and what it may admit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    minute: i64,
    used: Amount,
    granted: Amount,
    exhausted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// It is counted.
    Admitted,
    /// It is not counted: ask for this grant, then charge again.
    NeedsGrant(Amount),
    /// The quota is used up until the minute ends.
    Refused,
}

impl Window {
    /// A request that exceeds the whole quota counts as much as the quota; otherwise it could never be admitted.
    pub fn charge(&mut self, cost: Amount, quota: Amount, shared: bool, now: Timestamp) -> Charge {
        self.begin(quota, shared, now);
        let used = self.used.plus(cost.each(quota, u64::min));
        if used.fits(self.granted) {
            self.used = used;
            return Charge::Admitted;
        }
        if self.exhausted || !shared {
            return Charge::Refused;
        }
        let missing = used.minus(self.granted);
        Charge::NeedsGrant(missing.each(quota.divided(SHARES), u64::max).each(quota, u64::min))
    }

    /// Records the answer to [`Charge::NeedsGrant`] of `now`. It says nothing about a later minute.
    pub fn record_grant(&mut self, grant: Option<Amount>, now: Timestamp) {
        if self.minute != minute(now) {
            return;
        }
        match grant {
            Some(grant) => self.granted = self.granted.plus(grant),
            None => self.exhausted = true,
        }
    }

    /// Whether it is over, so that it need not be kept.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.minute < minute(now)
    }

    fn begin(&mut self, quota: Amount, shared: bool, now: Timestamp) {
        if self.minute == minute(now) {
            return;
        }
        let granted = if shared { quota.divided(SHARES) } else { quota };
        *self = Self { minute: minute(now), granted, ..Self::default() };
    }
}

/// Minutes since the Unix epoch.
pub fn minute(now: Timestamp) -> i64 {
    now.as_secs().div_euclid(60)
}

/// Until the next minute begins: from 1 to 60.
pub fn retry_after_secs(now: Timestamp) -> u64 {
    (60 - now.as_secs().rem_euclid(60)).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn quota_is_written_as_events_and_bytes() {
        for (text, events, bytes) in [
            ("60000/64M", 60_000, 64 << 20),
            ("1/1", 1, 1),
            ("5/1500", 5, 1_500),
            ("5/3K", 5, 3 << 10),
            ("6000000/6G", 6_000_000, 6 << 30),
        ] {
            assert_eq!(text.parse(), Ok(Amount::new(events, bytes)), "{text}");
            assert_eq!(Amount::new(events, bytes).to_string(), text);
        }
        for invalid in [
            "",
            "5",
            "5/",
            "/5",
            "0/5",
            "5/0",
            "5/0M",
            "-1/5",
            "+1/5",
            "5/M",
            "5/5X",
            "5/99999999999G",
            "5/5é",
        ] {
            assert!(invalid.parse::<Amount>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn events_and_bytes_are_both_limited() {
        let quota = Amount::new(10, 1_000);
        for (cost, admitted) in [(Amount::new(1, 400), 2), (Amount::new(4, 1), 2), (Amount::new(1, 1), 10)] {
            let mut window = Window::default();
            let count = std::iter::repeat_with(|| window.charge(cost, quota, false, at(60)))
                .take_while(|c| *c == Charge::Admitted);
            assert_eq!(count.count(), admitted, "{cost:?}");
            assert_eq!(window.charge(cost, quota, false, at(119)), Charge::Refused);
            assert_eq!(window.charge(cost, quota, false, at(120)), Charge::Admitted, "a new minute");
        }
        assert_eq!(retry_after_secs(at(119)), 1);
        assert_eq!(retry_after_secs(at(120)), 60);
    }

    #[test]
    fn request_above_the_quota_is_admitted_alone() {
        let (quota, large) = (Amount::new(10, 1_000), Amount::new(1, 5_000));
        let mut window = Window::default();
        assert_eq!(window.charge(large, quota, false, at(60)), Charge::Admitted);
        assert_eq!(window.charge(Amount::new(1, 1), quota, false, at(61)), Charge::Refused);
    }

    #[test]
    fn grant_of_an_earlier_minute_is_ignored() {
        let quota = Amount::new(900, 900);
        let mut window = Window::default();
        let Charge::NeedsGrant(grant) = window.charge(Amount::new(1, 1), quota, true, at(60)) else {
            panic!()
        };
        assert_eq!(grant, Amount::new(1, 1));
        assert!(matches!(window.charge(Amount::new(1, 1), quota, true, at(120)), Charge::NeedsGrant(_)));
        window.record_grant(Some(grant), at(60));
        assert!(matches!(window.charge(Amount::new(1, 1), quota, true, at(121)), Charge::NeedsGrant(_)));
    }

    proptest! {
        /// **Invariant:** in a minute, processes that share a quota admit at most the quota and one own share each.
        #[test]
        fn processes_together_admit_the_quota_and_one_share_each(
            quota in (1u64..20_000, 1u64..2_000_000).prop_map(|(events, bytes)| Amount::new(events, bytes)),
            requests in proptest::collection::vec((0usize..8, 1u64..2_000, 1u64..100_000), 1..400),
        ) {
            let mut processes = [Window::default(); 8];
            let (mut granted, mut admitted) = (Amount::default(), Amount::default());
            for (process, events, bytes) in requests {
                let cost = Amount::new(events, bytes).each(quota, u64::min);
                loop {
                    match processes[process].charge(cost, quota, true, at(60)) {
                        Charge::Admitted => {
                            admitted = admitted.plus(cost);
                            break;
                        }
                        Charge::Refused => break,
                        Charge::NeedsGrant(amount) => {
                            let fits = granted.plus(amount).fits(quota);
                            if fits {
                                granted = granted.plus(amount);
                            }
                            processes[process].record_grant(fits.then_some(amount), at(60));
                        }
                    }
                }
            }
            let shares = Amount::new(8 * (quota.events / SHARES), 8 * (quota.bytes / SHARES));
            prop_assert!(admitted.fits(quota.plus(shares)), "{admitted:?} of {quota:?}");
        }
    }
}
