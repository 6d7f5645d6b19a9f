//! How a ticket moves: by hand along its edges, and by itself with its tasks.

use super::{ANALYZE_REQUIREMENTS, ApprovalStatus, Blocked, IMPLEMENT_FEATURE, Status, Ticket};
use crate::{Timestamp, task};

/// What is in the way of a ticket whose task has failed: somebody has to retry that, or ask for another.
pub const TASK_FAILED: &str = "task_failed";
/// What is in the way of a ticket whose task was called off.
pub const TASK_CANCELLED: &str = "task_cancelled";

/// Why a ticket stays as it is, in words for the person who asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is there. A repeat is refused rather than told twice.
    #[error("the ticket is {at} already")]
    AlreadyThere {
        /// Where it stands.
        at: Status,
    },
    /// There is no such move.
    #[error("a ticket does not go from {from} to {to}")]
    NoEdge {
        /// Where it stands.
        from: Status,
        /// Where somebody wanted it.
        to: Status,
    },
    /// There is no such move while something is in its way.
    #[error("a blocked ticket does not go from {from} to {to}")]
    Blocked {
        /// Where it stands.
        from: Status,
        /// Where somebody wanted it.
        to: Status,
    },
    /// Nobody has to decide about it, or somebody did.
    #[error("the ticket does not wait for approval: it is {approval}")]
    NotPending {
        /// Where its approval stands.
        approval: ApprovalStatus,
    },
    /// There is still time to decide about it.
    #[error("there is still time to approve the ticket")]
    NotDue {
        /// By when, if ever.
        deadline_at: Option<Timestamp>,
    },
}

impl Status {
    /// Whether a ticket usually goes from here to there. The way back from testing is for what did not work.
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

    /// Whether a blocked ticket may be put here from anywhere: work goes on where it can, once it can.
    fn takes_blocked(self) -> bool {
        matches!(self, Self::Analyzing | Self::Building | Self::BuildingDone | Self::Testing)
    }
}

impl Ticket {
    /// After it was moved to `to`, with the phase that goes with it. `force` leaves the usual ways, and gets a ticket out
    /// of `done`, which nothing else does.
    ///
    /// Being blocked is told apart from where a ticket stands and survives a move, except to `done`: nothing is in the
    /// way of what is over.
    pub fn transition(&self, to: Status, force: bool, now: Timestamp) -> Result<Self, Refused> {
        let from = self.status;
        if from == to {
            return Err(Refused::AlreadyThere { at: to });
        }
        let is_blocked = self.blocked.is_some();
        let unblocks = is_blocked && from != Status::Done && to.takes_blocked();
        match force || from.leads_to(to) || unblocks {
            true => Ok(self.moved(to, now)),
            false if is_blocked => Err(Refused::Blocked { from, to }),
            false => Err(Refused::NoEdge { from, to }),
        }
    }

    /// What a turn of one of its tasks does to it, if anything: the work shows where a ticket stands, so this does not
    /// keep to the usual ways. But nothing moves a ticket that is done: a task that comes late changes nothing.
    ///
    /// A task that has failed or was called off is in its way until that, or another, is worked on.
    pub fn follow(&self, task_type: &str, task_status: task::Status, now: Timestamp) -> Option<Self> {
        if self.status == Status::Done || ![IMPLEMENT_FEATURE, ANALYZE_REQUIREMENTS].contains(&task_type) {
            return None;
        }
        let to = match (task_type, task_status) {
            (IMPLEMENT_FEATURE, task::Status::Running) => Status::Building,
            (IMPLEMENT_FEATURE, task::Status::Completed) => Status::Done,
            // Analysis beside work that has begun does not take the ticket back.
            (ANALYZE_REQUIREMENTS, task::Status::Running) if self.status == Status::Backlog => {
                Status::Analyzing
            }
            _ => self.status,
        };
        let mut next = if to == self.status { self.changed(now) } else { self.moved(to, now) };
        match task_status {
            task::Status::Failed => next.give_up(TASK_FAILED, now),
            task::Status::Cancelled => next.give_up(TASK_CANCELLED, now),
            _ if self.is_given_up() => next.blocked = None,
            _ => {}
        }
        (next.status != self.status || next.blocked != self.blocked).then_some(next)
    }

    /// Whether what it asks for is being done, or will be without anybody asking for it again.
    pub fn is_open(&self) -> bool {
        let archived = matches!(self.approval.status, ApprovalStatus::Rejected | ApprovalStatus::TimedOut);
        self.status != Status::Done && !archived && !self.is_given_up()
    }

    /// Whether the work on it is over without a result.
    fn is_given_up(&self) -> bool {
        self.blocked
            .as_ref()
            .is_some_and(|blocked| [TASK_FAILED, TASK_CANCELLED].contains(&blocked.reason.as_str()))
    }

    fn give_up(&mut self, reason: &str, now: Timestamp) {
        if self.blocked.as_ref().is_none_or(|blocked| blocked.reason != reason) {
            self.blocked = Some(Blocked { reason: reason.to_owned(), at: now });
        }
    }

    /// The ticket after a change at `now`, before the change.
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

    /// Which moves there are: a row per status, a column per target, in the order of [`Status::ALL`].
    const USUAL: [&str; 6] = [
        "-x----", // backlog
        "--x---", // analyzing
        "---x--", // building
        "----x-", // building-done
        "--x--x", // testing
        "------", // done
    ];
    const WHILE_BLOCKED: [&str; 6] = [
        "-xxxx-", // backlog
        "--xxx-", // analyzing
        "-x-xx-", // building
        "-xx-x-", // building-done
        "-xxx-x", // testing
        "------", // done
    ];

    #[test]
    fn a_ticket_moves_along_its_edges_and_no_others() {
        for (from, (usual, while_blocked)) in
            Status::ALL.into_iter().zip(USUAL.into_iter().zip(WHILE_BLOCKED))
        {
            for (to, (plain, hindered)) in
                Status::ALL.into_iter().zip(usual.chars().zip(while_blocked.chars()))
            {
                check_move(&ticket(from), to, plain == 'x', Refused::NoEdge { from, to });
                check_move(&blocked(from, "dependency"), to, hindered == 'x', Refused::Blocked { from, to });
            }
        }
    }

    fn check_move(before: &Ticket, to: Status, allowed: bool, otherwise: Refused) {
        let from = before.status;
        let forced = before.transition(to, true, now());
        let plain = before.transition(to, false, now());
        if from == to {
            assert_eq!((&forced, plain), (&Err(Refused::AlreadyThere { at: to }), forced.clone()));
            return;
        }
        let after = forced.expect("force leaves the usual ways");
        assert_eq!((after.status, after.phase.as_str()), (to, to.phase()));
        assert_eq!(after.previous_phase.as_deref(), Some(from.phase()));
        assert_eq!((after.version, after.updated_at), (before.version + 1, now()));
        assert_eq!(after.blocked.is_some(), before.blocked.is_some() && to != Status::Done);
        assert_eq!((after.seq, after.created_at), (before.seq, before.created_at));
        assert_eq!(plain, if allowed { Ok(after) } else { Err(otherwise) }, "{from} to {to}");
    }

    #[test]
    fn a_phase_of_its_own_gives_way_at_the_first_move() {
        let odd = Ticket { phase: "PHASE_REQUIREMENTS".into(), ..ticket(Status::Backlog) };
        let analyzing = odd.transition(Status::Analyzing, false, now()).unwrap();
        assert_eq!((analyzing.phase.as_str(), analyzing.previous_phase), ("PHASE_REQUIREMENTS", None));
    }

    /// What a ticket is after its task came to be so: where it stands, and what is in its way. A row per state of the
    /// task. `.` is where it was; `=` leaves in its way what was there, if that was not an end of the work.
    const FOLLOWS: [(&str, &str, &str, &str, &str); 9] = [
        // task           implement_feature        analyze_requirements
        ("pending", ".", "=", ".", "="),
        ("claiming", ".", "=", ".", "="),
        ("assigned", ".", "=", ".", "="),
        ("running", "building", "=", "analyzing, from backlog", "="),
        ("validating", ".", "=", ".", "="),
        ("needs_revision", ".", "=", ".", "="),
        ("completed", "done", "=", ".", "="),
        ("failed", ".", "task_failed", ".", "task_failed"),
        ("cancelled", ".", "task_cancelled", ".", "task_cancelled"),
    ];

    #[test]
    fn a_ticket_follows_its_tasks_and_is_not_taken_back_from_done() {
        for (row, task_status) in FOLLOWS.into_iter().zip(task::Status::ALL) {
            let (named, built, in_building, analyzed, in_analysis) = row;
            assert_eq!(named, task_status.as_str());
            for from in Status::ALL {
                for before in [ticket(from), blocked(from, "dependency"), blocked(from, TASK_FAILED)] {
                    check_follow(&before, IMPLEMENT_FEATURE, task_status, built, in_building);
                    check_follow(&before, ANALYZE_REQUIREMENTS, task_status, analyzed, in_analysis);
                    assert_eq!(before.follow("write_tests", task_status, now()), None, "{from}, {named}");
                }
            }
        }
    }

    fn check_follow(before: &Ticket, task_type: &str, task_status: task::Status, to: &str, in_its_way: &str) {
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
            let is = match in_its_way {
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
        assert_eq!(after.follow(task_type, task_status, now().plus_secs(1)), None, "a repeat: {name}");
    }

    #[test]
    fn a_ticket_is_open_while_somebody_works_on_it_or_will() {
        for status in Status::ALL {
            let open = status != Status::Done;
            assert_eq!(ticket(status).is_open(), open, "{status}");
            assert_eq!(blocked(status, "dependency").is_open(), open, "{status}");
            for end in [task::Status::Failed, task::Status::Cancelled] {
                let before = ticket(status);
                let Some(given_up) = before.follow(IMPLEMENT_FEATURE, end, now()) else {
                    assert!(!open, "{status}");
                    continue;
                };
                assert!(!given_up.is_open(), "{status}");
                let again = given_up.follow(IMPLEMENT_FEATURE, task::Status::Pending, now()).unwrap();
                assert!(again.is_open() && again.blocked.is_none(), "somebody wants it after all: {status}");
            }
        }
        for (approval, open) in ApprovalStatus::ALL.into_iter().zip([true, true, false, false]) {
            let mut decided = ticket(Status::Backlog);
            decided.approval.status = approval;
            assert_eq!(decided.is_open(), open, "{approval}");
        }
    }
}
