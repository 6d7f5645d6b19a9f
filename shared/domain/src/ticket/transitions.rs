//! The transitions of a ticket: manual ones along the status table, and automatic ones that follow its tasks.

use super::{ANALYZE_REQUIREMENTS, ApprovalStatus, Blocked, IMPLEMENT_FEATURE, Status, Ticket};
use crate::{Timestamp, task};

/// Blocked because a task failed: it must be retried, or another task created.
pub const TASK_FAILED: &str = "task_failed";
/// Blocked because a task was cancelled.
pub const TASK_CANCELLED: &str = "task_cancelled";

/// Why a transition is rejected, worded for the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A retry is rejected rather than emitting the event twice.
    #[error("the ticket is already {status}")]
    AlreadyInStatus { status: Status },
    #[error("the transition from {from} to {to} is not allowed")]
    NotAllowed { from: Status, to: Status },
    #[error("the transition from {from} to {to} is not allowed while the ticket is blocked")]
    Blocked { from: Status, to: Status },
    #[error("the ticket is not pending approval: it is {approval}")]
    NotPending { approval: ApprovalStatus },
    #[error("the approval deadline has not passed")]
    NotDue { deadline_at: Option<Timestamp> },
}

impl Status {
    /// Whether a transition is allowed without `force`. Testing may lead back to building, for a ticket that does not work.
    pub fn leads_to(self, to: Self) -> bool {
        matches!(
            (self, to),
            (Self::Backlog, Self::Analyzing)
                | (Self::Analyzing, Self::Building)
                | (Self::Building, Self::BuildingDone)
                | (Self::BuildingDone, Self::Testing)
                | (Self::Testing, Self::Done | Self::Building)
        )
    }

    /// Whether a blocked ticket may go here from any status but `done`: work continues where it can.
    fn accepts_blocked(self) -> bool {
        matches!(self, Self::Analyzing | Self::Building | Self::BuildingDone | Self::Testing)
    }
}

impl Ticket {
    /// The ticket with status `to` and its phase. `force` allows any transition; nothing else leads out of `done`.
    ///
    /// A blocked ticket stays blocked, except in `done`.
    pub fn transition(&self, to: Status, force: bool, now: Timestamp) -> Result<Self, Refused> {
        let from = self.status;
        if from == to {
            return Err(Refused::AlreadyInStatus { status: to });
        }
        let is_blocked = self.blocked.is_some();
        let unblocks = is_blocked && from != Status::Done && to.accepts_blocked();
        match force || from.leads_to(to) || unblocks {
            true => Ok(self.moved(to, now)),
            false if is_blocked => Err(Refused::Blocked { from, to }),
            false => Err(Refused::NotAllowed { from, to }),
        }
    }

    /// The ticket after one of its tasks reached a status; `None` if nothing changes. Progress of the tasks overrides the
    /// status table, but never moves a ticket out of `done`.
    ///
    /// A failed or cancelled task blocks the ticket until that task or another is in progress again.
    pub fn follow(&self, task_type: &str, task_status: task::Status, now: Timestamp) -> Option<Self> {
        if self.status == Status::Done || ![IMPLEMENT_FEATURE, ANALYZE_REQUIREMENTS].contains(&task_type) {
            return None;
        }
        let to = match (task_type, task_status) {
            (IMPLEMENT_FEATURE, task::Status::Running) => Status::Building,
            (IMPLEMENT_FEATURE, task::Status::Completed) => Status::Done,
            // An analysis does not move the ticket back once work has begun.
            (ANALYZE_REQUIREMENTS, task::Status::Running) if self.status == Status::Backlog => {
                Status::Analyzing
            }
            _ => self.status,
        };
        let mut next = if to == self.status { self.changed(now) } else { self.moved(to, now) };
        match task_status {
            task::Status::Failed => next.block(TASK_FAILED, now),
            task::Status::Cancelled => next.block(TASK_CANCELLED, now),
            _ if self.has_failed_task() => next.blocked = None,
            _ => {}
        }
        (next.status != self.status || next.blocked != self.blocked).then_some(next)
    }

    /// Whether work on it is in progress, or will start without another request.
    pub fn is_open(&self) -> bool {
        let archived = matches!(self.approval.status, ApprovalStatus::Rejected | ApprovalStatus::TimedOut);
        self.status != Status::Done && !archived && !self.has_failed_task()
    }

    /// Whether it is blocked by a task that ended without a result.
    fn has_failed_task(&self) -> bool {
        self.blocked
            .as_ref()
            .is_some_and(|blocked| [TASK_FAILED, TASK_CANCELLED].contains(&blocked.reason.as_str()))
    }

    fn block(&mut self, reason: &str, now: Timestamp) {
        if self.blocked.as_ref().is_none_or(|blocked| blocked.reason != reason) {
            self.blocked = Some(Blocked { reason: reason.to_owned(), at: now });
        }
    }

    /// A copy with the next version and this time of change.
    pub(super) fn changed(&self, now: Timestamp) -> Self {
        Self { version: self.version + 1, updated_at: now, ..self.clone() }
    }

    fn moved(&self, to: Status, now: Timestamp) -> Self {
        let mut next = self.changed(now);
        next.status = to;
        if self.phase != to.phase() {
            next.previous_phase = Some(self.phase.clone());
            next.phase = to.phase().to_owned();
        }
        if to == Status::Done {
            next.blocked = None;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::tests::ticket;

    fn now() -> Timestamp {
        Timestamp::from_secs(200)
    }

    fn blocked(status: Status, reason: &str) -> Ticket {
        let blocked = Blocked { reason: reason.into(), at: Timestamp::from_secs(150) };
        Ticket { blocked: Some(blocked), ..ticket(status) }
    }

    /// Allowed transitions: a row per status, a column per target, in the order of [`Status::ALL`].
    const ALLOWED: [&str; 6] = [
        "-x----", // backlog
        "--x---", // analyzing
        "---x--", // building
        "----x-", // building-done
        "--x--x", // testing
        "------", // done
    ];
    const ALLOWED_WHILE_BLOCKED: [&str; 6] = [
        "-xxxx-", // backlog
        "--xxx-", // analyzing
        "-x-xx-", // building
        "-xx-x-", // building-done
        "-xxx-x", // testing
        "------", // done
    ];

    #[test]
    fn only_allowed_transitions_are_accepted() {
        for (from, (allowed, while_blocked)) in
            Status::ALL.into_iter().zip(ALLOWED.into_iter().zip(ALLOWED_WHILE_BLOCKED))
        {
            for (to, (allowed, while_blocked)) in
                Status::ALL.into_iter().zip(allowed.chars().zip(while_blocked.chars()))
            {
                check(&ticket(from), to, allowed == 'x', Refused::NotAllowed { from, to });
                check(&blocked(from, "dependency"), to, while_blocked == 'x', Refused::Blocked { from, to });
            }
        }
    }

    fn check(before: &Ticket, to: Status, allowed: bool, otherwise: Refused) {
        let from = before.status;
        let forced = before.transition(to, true, now());
        let plain = before.transition(to, false, now());
        if from == to {
            assert_eq!((&forced, plain), (&Err(Refused::AlreadyInStatus { status: to }), forced.clone()));
            return;
        }
        let after = forced.expect("force allows any transition");
        assert_eq!((after.status, after.phase.as_str()), (to, to.phase()));
        assert_eq!(after.previous_phase.as_deref(), Some(from.phase()));
        assert_eq!((after.version, after.updated_at), (before.version + 1, now()));
        assert_eq!(after.blocked.is_some(), before.blocked.is_some() && to != Status::Done);
        assert_eq!((after.seq, after.created_at), (before.seq, before.created_at));
        assert_eq!(plain, if allowed { Ok(after) } else { Err(otherwise) }, "{from} to {to}");
    }

    #[test]
    fn a_custom_phase_is_replaced_by_the_first_transition() {
        let custom = Ticket { phase: "PHASE_REQUIREMENTS".into(), ..ticket(Status::Backlog) };
        let analyzing = custom.transition(Status::Analyzing, false, now()).unwrap();
        assert_eq!((analyzing.phase.as_str(), analyzing.previous_phase), ("PHASE_REQUIREMENTS", None));
    }

    /// Status and block reason of a ticket after its task reached a status: a row per status of the task. `.` keeps the
    /// status; `=` keeps the reason, unless it was a task that ended.
    const FOLLOWS: [(&str, &str, &str, &str, &str); 10] = [
        // task           implement_feature        analyze_requirements
        ("pending", ".", "=", ".", "="),
        ("claiming", ".", "=", ".", "="),
        ("assigned", ".", "=", ".", "="),
        ("running", "building", "=", "analyzing, from backlog", "="),
        ("completing", ".", "=", ".", "="),
        ("validating", ".", "=", ".", "="),
        ("needs_revision", ".", "=", ".", "="),
        ("completed", "done", "=", ".", "="),
        ("failed", ".", "task_failed", ".", "task_failed"),
        ("cancelled", ".", "task_cancelled", ".", "task_cancelled"),
    ];

    #[test]
    fn a_ticket_follows_its_tasks_and_stays_done() {
        for (row, task_status) in FOLLOWS.into_iter().zip(task::Status::ALL) {
            let (name, built, build_block, analyzed, analysis_block) = row;
            assert_eq!(name, task_status.as_str());
            for from in Status::ALL {
                for before in [ticket(from), blocked(from, "dependency"), blocked(from, TASK_FAILED)] {
                    check_follow(&before, IMPLEMENT_FEATURE, task_status, built, build_block);
                    check_follow(&before, ANALYZE_REQUIREMENTS, task_status, analyzed, analysis_block);
                    assert_eq!(before.follow("write_tests", task_status, now()), None, "{from}, {name}");
                }
            }
        }
    }

    fn check_follow(before: &Ticket, task_type: &str, task_status: task::Status, to: &str, block: &str) {
        let name = format!("{before:?}, {task_type} {task_status:?}");
        let mut expected = before.clone();
        if before.status != Status::Done {
            match to.split_once(", from ") {
                Some((to, from)) if before.status.as_str() == from => {
                    expected.status = Status::parse(to).unwrap();
                }
                Some(_) => {}
                None => expected.status = Status::parse(to).unwrap_or(before.status),
            }
            let was = before.blocked.clone().map(|blocked| blocked.reason);
            let is = match block {
                _ if expected.status == Status::Done => None,
                "=" => was.clone().filter(|reason| reason != TASK_FAILED),
                reason => Some(reason.to_owned()),
            };
            if was != is {
                expected.blocked = is.map(|reason| Blocked { reason, at: now() });
            }
        }
        let Some(after) = before.follow(task_type, task_status, now()) else {
            assert_eq!(expected, *before, "{name}");
            return;
        };
        assert_eq!((after.status, &after.blocked), (expected.status, &expected.blocked), "{name}");
        assert_eq!(
            (after.phase.as_str(), after.version),
            (after.status.phase(), before.version + 1),
            "{name}"
        );
        assert_eq!(after.follow(task_type, task_status, now().plus_secs(1)), None, "idempotent: {name}");
    }

    #[test]
    fn a_ticket_is_open_while_work_is_in_progress_or_pending() {
        for status in Status::ALL {
            let open = status != Status::Done;
            assert_eq!(ticket(status).is_open(), open, "{status}");
            assert_eq!(blocked(status, "dependency").is_open(), open, "{status}");
            for end in [task::Status::Failed, task::Status::Cancelled] {
                let before = ticket(status);
                let Some(failed) = before.follow(IMPLEMENT_FEATURE, end, now()) else {
                    assert!(!open, "{status}");
                    continue;
                };
                assert!(!failed.is_open(), "{status}");
                let retried = failed.follow(IMPLEMENT_FEATURE, task::Status::Pending, now()).unwrap();
                assert!(retried.is_open() && retried.blocked.is_none(), "{status}");
            }
        }
        for (approval, open) in ApprovalStatus::ALL.into_iter().zip([true, true, false, false]) {
            let mut decided = ticket(Status::Backlog);
            decided.approval.status = approval;
            assert_eq!(decided.is_open(), open, "{approval}");
        }
    }
}
