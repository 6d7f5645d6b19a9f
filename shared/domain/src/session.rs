//! An agent's own record of a session, so that another sandbox can go on with it: whose it is, and what a new piece of it
//! does.
//!
//! A session belongs to the org of the sandbox that began it, and is held by one sandbox at a time. One that was
//! registered to resume it takes it over with the first entry that it adds.

use crate::{OrgId, Sandbox, SandboxId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

/// What is known of a session besides its entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Which.
    pub id: SessionId,
    /// Whose.
    pub org: OrgId,
    /// The sandbox that adds to it.
    pub sandbox: SandboxId,
    /// When that sandbox was registered: only a younger one may take the session over.
    pub sandbox_created_at: Timestamp,
    /// When it began.
    pub created_at: Timestamp,
    /// When something was last added.
    pub updated_at: Timestamp,
    /// The number of the entry that comes next; the first is 1.
    pub next: u64,
    /// Moves with every write; whoever writes names the one that they read.
    pub version: u64,
}

/// How a sandbox stands to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionAccess {
    /// It adds to it.
    Holder,
    /// It was registered to resume it, after the holder was registered: it may take it over.
    Heir,
    /// It was registered to resume it, and a younger one has it now.
    Superseded,
    /// It has, or no longer has, anything to do with it.
    Stranger,
    /// It is of another org; that the session exists is private.
    Foreign,
}

impl SessionAccess {
    /// Whether the sandbox's own worker may read the session.
    pub fn may_read(self) -> bool {
        matches!(self, Self::Holder | Self::Heir | Self::Superseded)
    }
}

impl Session {
    /// How this sandbox stands to it.
    pub fn access(&self, sandbox: &Sandbox) -> SessionAccess {
        if sandbox.org != self.org {
            return SessionAccess::Foreign;
        }
        if sandbox.id == self.sandbox {
            return SessionAccess::Holder;
        }
        if sandbox.resumes.as_ref() != Some(&self.id) {
            return SessionAccess::Stranger;
        }
        // The younger of two: otherwise two that resume the same session would take it from each other in turns.
        let younger = (sandbox.created_at, &sandbox.id) > (self.sandbox_created_at, &self.sandbox);
        if younger { SessionAccess::Heir } else { SessionAccess::Superseded }
    }
}

/// What to do with entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// So many of them, from the front, were stored before: they must be the same.
    pub known: u64,
    /// The session once the others are stored.
    pub after: Session,
}

/// Why entries are not stored, though nothing is wrong with them as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such session for this sandbox.
    NotFound,
    /// Another sandbox has it.
    Transition,
    /// Entries are missing before these.
    Gap {
        /// The number that must come next.
        expected: u64,
    },
}

/// Decides what to do with `count` entries from number `first` on that this sandbox adds to a session.
///
/// **Invariant:** the entries of a session are 1, 2, 3, … without a gap, each stored once, by the sandbox that held it
/// then.
pub fn plan(
    session: Option<&Session>,
    id: &SessionId,
    sandbox: &Sandbox,
    first: u64,
    count: u64,
    now: Timestamp,
) -> Result<Plan, Refusal> {
    match session.map(|session| session.access(sandbox)) {
        None | Some(SessionAccess::Holder | SessionAccess::Heir) => {}
        Some(SessionAccess::Superseded | SessionAccess::Stranger) => return Err(Refusal::Transition),
        Some(SessionAccess::Foreign) => return Err(Refusal::NotFound),
    }
    let next = session.map_or(1, |session| session.next);
    if first > next {
        return Err(Refusal::Gap { expected: next });
    }
    let known = count.min(next - first);
    let after = Session {
        id: id.clone(),
        org: sandbox.org.clone(),
        sandbox: sandbox.id.clone(),
        sandbox_created_at: sandbox.created_at,
        created_at: session.map_or(now, |session| session.created_at),
        updated_at: now,
        next: next + count - known,
        version: session.map_or(0, |session| session.version) + 1,
    };
    Ok(Plan { known, after })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn session_id() -> SessionId {
        SessionId::parse("c0ffee").unwrap()
    }

    fn sandbox(id: &str, org: &str, created_at: i64, resumes: bool) -> Sandbox {
        let org = OrgId::parse(org).unwrap();
        let mut head = Sandbox::new(SandboxId::parse(id).unwrap(), org, None, at(created_at));
        head.resumes = resumes.then(session_id);
        head
    }

    fn add(
        session: Option<&Session>,
        sandbox: &Sandbox,
        first: u64,
        count: u64,
    ) -> Result<(u64, Session), Refusal> {
        plan(session, &session_id(), sandbox, first, count, at(9)).map(|plan| (plan.known, plan.after))
    }

    #[test]
    fn entries_are_added_once_and_without_a_gap() {
        let one = sandbox("s-1", "acme", 1, false);
        assert_eq!(add(None, &one, 2, 1), Err(Refusal::Gap { expected: 1 }));
        let (known, session) = add(None, &one, 1, 3).unwrap();
        assert_eq!((known, session.next, session.version), (0, 4, 1));
        for (first, count, known, next) in
            [(4, 2, 0, 6), (1, 3, 3, 4), (2, 1, 1, 4), (3, 3, 1, 6), (1, 9, 3, 10)]
        {
            let (found, after) = add(Some(&session), &one, first, count).unwrap();
            assert_eq!((found, after.next), (known, next), "{first} {count}");
        }
        assert_eq!(add(Some(&session), &one, 5, 1), Err(Refusal::Gap { expected: 4 }));
    }

    #[test]
    fn a_session_moves_to_the_youngest_that_resumes_it_and_never_back() {
        let first = sandbox("s-1", "acme", 1, false);
        let (second, third) = (sandbox("s-2", "acme", 2, true), sandbox("s-3", "acme", 3, true));
        let (_, session) = add(None, &first, 1, 1).unwrap();
        assert_eq!(session.access(&second), SessionAccess::Heir);
        let (_, session) = add(Some(&session), &second, 2, 1).unwrap();
        assert_eq!((session.sandbox.as_str(), session.created_at), ("s-2", at(9)));
        assert_eq!(add(Some(&session), &first, 3, 1), Err(Refusal::Transition));
        let (_, session) = add(Some(&session), &third, 3, 1).unwrap();
        assert_eq!(session.access(&second), SessionAccess::Superseded);
        assert_eq!(add(Some(&session), &second, 4, 1), Err(Refusal::Transition));
        assert!(add(Some(&session), &third, 4, 1).is_ok());
        // Registered in the same instant: one of the two is still the younger.
        let (left, right) = (sandbox("s-4", "acme", 4, true), sandbox("s-5", "acme", 4, true));
        let (_, held) = add(Some(&session), &right, 4, 1).unwrap();
        assert_eq!(held.access(&left), SessionAccess::Superseded);
    }

    #[test]
    fn strangers_do_not_read_it_and_other_orgs_do_not_know_of_it() {
        let (_, session) = add(None, &sandbox("s-1", "acme", 1, false), 1, 1).unwrap();
        let stranger = sandbox("s-2", "acme", 2, false);
        assert_eq!(session.access(&stranger), SessionAccess::Stranger);
        assert!(!SessionAccess::Stranger.may_read() && SessionAccess::Superseded.may_read());
        assert_eq!(add(Some(&session), &stranger, 2, 1), Err(Refusal::Transition));
        // Whatever it says that it resumes.
        let foreign = sandbox("s-3", "rival", 3, true);
        assert_eq!(session.access(&foreign), SessionAccess::Foreign);
        assert_eq!(add(Some(&session), &foreign, 2, 1), Err(Refusal::NotFound));
    }
}
