//! How a ticket moves: by hand along its edges, and by itself with its tasks.

use super::{ANALYZE_REQUIREMENTS, ApprovalStatus, IMPLEMENT_FEATURE, Status, Ticket};
use crate::{Timestamp, task};

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
    pub fn follow(&self, task_type: &str, task_status: task::Status, now: Timestamp) -> Option<Self> {
        let to = match (task_type, task_status) {
            (IMPLEMENT_FEATURE, task::Status::Running) => Status::Building,
            (IMPLEMENT_FEATURE, task::Status::Completed) => Status::Done,
            // Analysis beside work that has begun does not take the ticket back.
            (ANALYZE_REQUIREMENTS, task::Status::Running) if self.status == Status::Backlog => {
                Status::Analyzing
            }
            _ => return None,
        };
        (self.status != Status::Done && self.status != to).then(|| self.moved(to, now))
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
    use crate::ticket::{Blocked, tests::ticket};

    fn now() -> Timestamp {
        Timestamp::from_secs(200)
    }

    fn blocked(status: Status) -> Ticket {
        let blocked = Blocked { reason: "dependency".into(), at: Timestamp::from_secs(150) };
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
                check_move(&blocked(from), to, hindered == 'x', Refused::Blocked { from, to });
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

    #[test]
    fn a_ticket_follows_its_tasks_and_is_not_taken_back_from_done() {
        use Status::{Analyzing, Backlog, Building, Done};
        for from in Status::ALL {
            for task_status in task::Status::ALL {
                for task_type in [IMPLEMENT_FEATURE, ANALYZE_REQUIREMENTS, "write_tests"] {
                    let expected = match (task_type, task_status.as_str()) {
                        _ if from == Done => None,
                        ("implement_feature", "running") => Some(Building).filter(|to| *to != from),
                        ("implement_feature", "completed") => Some(Done),
                        ("analyze_requirements", "running") if from == Backlog => Some(Analyzing),
                        _ => None,
                    };
                    for before in [ticket(from), blocked(from)] {
                        let after = before.follow(task_type, task_status, now());
                        let name = format!("{from}, {task_type} {}", task_status.as_str());
                        assert_eq!(after.as_ref().map(|ticket| ticket.status), expected, "{name}");
                        if let Some(after) = after {
                            assert_eq!(
                                Ok(&after),
                                before.transition(after.status, true, now()).as_ref(),
                                "{name}"
                            );
                            assert_eq!(after.follow(task_type, task_status, now()), None, "a repeat: {name}");
                        }
                    }
                }
            }
        }
    }
}
