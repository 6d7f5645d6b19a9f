//! Approval of tickets. If the settings require it, a person must approve a ticket before a deadline.

use super::merge::TicketMerge;
use super::{Refused, Ticket};
use crate::access::Principal;
use crate::{Invalid, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

pub const MIN_TIMEOUT_SECS: i64 = 60;
pub const MAX_TIMEOUT_SECS: i64 = 86_400;
pub const TIMED_OUT_REASON: &str = "Approval timeout exceeded";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalSettings {
    pub required: bool,
    timeout_secs: i64,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self { required: false, timeout_secs: 1_800 }
    }
}

impl ApprovalSettings {
    /// Accepts a timeout between a minute and a day.
    pub fn new(required: bool, timeout_secs: i64) -> Result<Self, Invalid> {
        if !(MIN_TIMEOUT_SECS..=MAX_TIMEOUT_SECS).contains(&timeout_secs) {
            let reason =
                format!("must be between {MIN_TIMEOUT_SECS} and {MAX_TIMEOUT_SECS}, not {timeout_secs}");
            return Err(Invalid::new("timeout_secs", reason));
        }
        Ok(Self { required, timeout_secs })
    }

    pub fn timeout_secs(&self) -> i64 {
        self.timeout_secs
    }

    /// The approval of a ticket that is created at `now`.
    pub fn initial(&self, now: Timestamp) -> Approval {
        if !self.required {
            return Approval::default();
        }
        Approval {
            status: ApprovalStatus::PendingReview,
            deadline_at: Some(now.plus_secs(self.timeout_secs)),
            ..Approval::default()
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Approval {
    pub status: ApprovalStatus,
    /// Kept after the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// Why it was not approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    #[default]
    Approved,
    PendingReview,
    Rejected,
    /// Not decided before the deadline.
    TimedOut,
}

impl ApprovalStatus {
    pub const ALL: [Self; 4] = [Self::Approved, Self::PendingReview, Self::Rejected, Self::TimedOut];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::PendingReview => "pending_review",
            Self::Rejected => "rejected",
            Self::TimedOut => "timed_out",
        }
    }
}

impl fmt::Display for ApprovalStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Ticket {
    /// Whether reconciliation watches it: it waits for an approval, which may time out, or its branches are merged.
    pub fn needs_reconcile(&self) -> bool {
        self.awaits_approval() || self.merge.as_ref().is_some_and(TicketMerge::is_running)
    }

    fn awaits_approval(&self) -> bool {
        self.approval.status == ApprovalStatus::PendingReview
    }

    /// Whether the approval deadline has passed without a decision.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.awaits_approval() && self.approval.deadline_at.is_some_and(|deadline| deadline <= now)
    }

    /// Whether this user is its author.
    pub fn is_by(&self, principal: &Principal) -> bool {
        matches!(principal, Principal::User { id, .. } if self.created_by.as_ref() == Some(id))
    }

    /// Approves it. Also after the deadline, as long as it has not timed out.
    pub fn approve(&self, by: Option<&str>, now: Timestamp) -> Result<Self, Refused> {
        self.decided(ApprovalStatus::Approved, by, None, now)
    }

    /// Rejects it. The ticket is kept; OmoiOS deletes it, which leaves no trace.
    pub fn reject(&self, by: Option<&str>, reason: &str, now: Timestamp) -> Result<Self, Refused> {
        self.decided(ApprovalStatus::Rejected, by, Some(reason), now)
    }

    /// Times it out. Rejected before the deadline, so that a sweep with stale data does no harm.
    pub fn time_out(&self, now: Timestamp) -> Result<Self, Refused> {
        let next = self.decided(ApprovalStatus::TimedOut, None, Some(TIMED_OUT_REASON), now)?;
        match self.approval.deadline_at {
            Some(deadline_at) if now >= deadline_at => Ok(next),
            deadline_at => Err(Refused::NotDue { deadline_at }),
        }
    }

    fn decided(
        &self,
        status: ApprovalStatus,
        by: Option<&str>,
        reason: Option<&str>,
        now: Timestamp,
    ) -> Result<Self, Refused> {
        if self.approval.status != ApprovalStatus::PendingReview {
            return Err(Refused::NotPending { approval: self.approval.status });
        }
        let mut next = self.changed(now);
        next.approval = Approval {
            status,
            deadline_at: self.approval.deadline_at,
            reason: reason.map(str::to_owned),
            by: by.map(str::to_owned),
        };
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::{Status, tests::ticket};

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn with(status: ApprovalStatus) -> Ticket {
        let approval = Approval { status, deadline_at: Some(at(1_900)), ..Approval::default() };
        Ticket { approval, ..ticket(Status::Backlog) }
    }

    #[test]
    fn only_a_pending_approval_is_decided_and_only_once() {
        type Decision = fn(&Ticket) -> Result<Ticket, Refused>;
        type Case = (&'static str, Decision, ApprovalStatus, Option<&'static str>, Option<&'static str>);
        let decisions: [Case; 3] = [
            ("approve", |t| t.approve(Some("u-1"), at(2_000)), ApprovalStatus::Approved, Some("u-1"), None),
            (
                "reject",
                |t| t.reject(Some("u-1"), "no", at(2_000)),
                ApprovalStatus::Rejected,
                Some("u-1"),
                Some("no"),
            ),
            ("time out", |t| t.time_out(at(2_000)), ApprovalStatus::TimedOut, None, Some(TIMED_OUT_REASON)),
        ];
        for (name, decide, expected, by, reason) in decisions {
            for before in ApprovalStatus::ALL {
                let ticket = with(before);
                match decide(&ticket) {
                    Ok(after) => {
                        assert_eq!(before, ApprovalStatus::PendingReview, "{name}");
                        assert_eq!(after.approval.status, expected, "{name}");
                        assert_eq!(after.approval.by.as_deref(), by, "{name}");
                        assert_eq!(after.approval.reason.as_deref(), reason, "{name}");
                        assert_eq!((after.version, after.updated_at), (2, at(2_000)), "{name}");
                        for (_, again, ..) in decisions {
                            assert_eq!(
                                again(&after),
                                Err(Refused::NotPending { approval: expected }),
                                "{name}"
                            );
                        }
                    }
                    Err(refused) => {
                        assert_ne!(before, ApprovalStatus::PendingReview, "{name}");
                        assert_eq!(refused, Refused::NotPending { approval: before }, "{name}");
                        assert!(refused.to_string().contains(before.as_str()), "{refused}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_approval_times_out_only_after_its_deadline() {
        let waiting = with(ApprovalStatus::PendingReview);
        let deadline_at = Some(at(1_900));
        assert_eq!(waiting.time_out(at(1_899)), Err(Refused::NotDue { deadline_at }));
        assert!(waiting.time_out(at(1_900)).is_ok());
        assert!(waiting.approve(None, at(5_000)).is_ok(), "approval after the deadline");
        let mut without_deadline = waiting;
        without_deadline.approval.deadline_at = None;
        assert_eq!(without_deadline.time_out(at(5_000)), Err(Refused::NotDue { deadline_at: None }));
    }

    #[test]
    fn settings_determine_the_initial_approval() {
        assert_eq!(ApprovalSettings::default().initial(at(0)), Approval::default());
        assert_eq!(ApprovalSettings::default().timeout_secs(), 1_800);
        let required = ApprovalSettings::new(true, 60).unwrap().initial(at(100));
        assert_eq!((required.status, required.deadline_at), (ApprovalStatus::PendingReview, Some(at(160))));
        for (secs, good) in [(59, false), (60, true), (86_400, true), (86_401, false), (-1, false)] {
            assert_eq!(ApprovalSettings::new(true, secs).is_ok(), good, "{secs}");
        }
        for status in ApprovalStatus::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }
}
