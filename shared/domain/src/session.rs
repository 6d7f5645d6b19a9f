//! The transcript of an agent's session, which another sandbox can resume: its ownership, and how entries are appended.
//!
//! A session belongs to the org of the sandbox that began it, and one sandbox at a time may append to it. A sandbox that
//! was registered to resume the session takes it over with its first entry.

use crate::{OrgId, Sandbox, SandboxId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

/// A session without its entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub org: OrgId,
    /// The sandbox that appends to it.
    pub sandbox: SandboxId,
    /// When that sandbox was registered: only a younger one may take over the session.
    pub sandbox_created_at: Timestamp,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Number of the next entry; the first is 1.
    pub next: u64,
    /// Grows with every write: a write is conditional on the version that was read.
    pub version: u64,
}

/// What a sandbox may do with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionAccess {
    /// It appends to the session.
    Holder,
    /// It was registered to resume the session, after the holder was registered: it may take over.
    Successor,
    /// It was registered to resume the session, which a younger sandbox has taken over.
    Superseded,
    /// It was not registered to resume the session.
    Unrelated,
    /// It belongs to another org and must not learn that the session exists.
    OtherOrg,
}

impl SessionAccess {
    /// Whether the sandbox's own worker may read the session.
    pub fn may_read(self) -> bool {
        matches!(self, Self::Holder | Self::Successor | Self::Superseded)
    }
}

impl Session {
    pub fn access(&self, sandbox: &Sandbox) -> SessionAccess {
        if sandbox.org != self.org {
            return SessionAccess::OtherOrg;
        }
        if sandbox.id == self.sandbox {
            return SessionAccess::Holder;
        }
        if sandbox.resumes.as_ref() != Some(&self.id) {
            return SessionAccess::Unrelated;
        }
        // Only a younger sandbox may take over: otherwise two that resume the same session would alternate forever.
        let younger = (sandbox.created_at, &sandbox.id) > (self.sandbox_created_at, &self.sandbox);
        if younger { SessionAccess::Successor } else { SessionAccess::Superseded }
    }
}

/// How entries are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Number of leading entries that are stored already: they must be equal.
    pub known: u64,
    /// The session once the other entries are stored.
    pub after: Session,
}

/// Why well-formed entries are not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The session does not exist, or the sandbox must not learn that it does.
    NotFound,
    /// Another sandbox has taken over the session.
    Superseded,
    /// Entries are missing before these.
    Gap { expected: u64 },
}

/// Decides how to store `count` entries from number `first` on that this sandbox appends to a session.
///
/// **Invariant:** the entries of a session are 1, 2, 3, … without a gap, each stored once, by the sandbox that held the
/// session at that time.
pub fn plan(
    session: Option<&Session>,
    id: &SessionId,
    sandbox: &Sandbox,
    first: u64,
    count: u64,
    now: Timestamp,
) -> Result<Plan, Refusal> {
    match session.map(|session| session.access(sandbox)) {
        None | Some(SessionAccess::Holder | SessionAccess::Successor) => {}
        Some(SessionAccess::Superseded | SessionAccess::Unrelated) => return Err(Refusal::Superseded),
        Some(SessionAccess::OtherOrg) => return Err(Refusal::NotFound),
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
        let mut sandbox = Sandbox::new(SandboxId::parse(id).unwrap(), org, None, at(created_at));
        sandbox.resumes = resumes.then(session_id);
        sandbox
    }

    fn append(
        session: Option<&Session>,
        sandbox: &Sandbox,
        first: u64,
        count: u64,
    ) -> Result<(u64, Session), Refusal> {
        plan(session, &session_id(), sandbox, first, count, at(9)).map(|plan| (plan.known, plan.after))
    }

    #[test]
    fn entries_are_stored_once_and_without_a_gap() {
        let holder = sandbox("s-1", "acme", 1, false);
        assert_eq!(append(None, &holder, 2, 1), Err(Refusal::Gap { expected: 1 }));
        let (known, session) = append(None, &holder, 1, 3).unwrap();
        assert_eq!((known, session.next, session.version), (0, 4, 1));
        for (first, count, known, next) in
            [(4, 2, 0, 6), (1, 3, 3, 4), (2, 1, 1, 4), (3, 3, 1, 6), (1, 9, 3, 10)]
        {
            let (found, after) = append(Some(&session), &holder, first, count).unwrap();
            assert_eq!((found, after.next), (known, next), "{first} {count}");
        }
        assert_eq!(append(Some(&session), &holder, 5, 1), Err(Refusal::Gap { expected: 4 }));
    }

    #[test]
    fn a_session_moves_to_the_youngest_successor_and_never_back() {
        let first = sandbox("s-1", "acme", 1, false);
        let (second, third) = (sandbox("s-2", "acme", 2, true), sandbox("s-3", "acme", 3, true));
        let (_, session) = append(None, &first, 1, 1).unwrap();
        assert_eq!(session.access(&second), SessionAccess::Successor);
        let (_, session) = append(Some(&session), &second, 2, 1).unwrap();
        assert_eq!((session.sandbox.as_str(), session.created_at), ("s-2", at(9)));
        assert_eq!(append(Some(&session), &first, 3, 1), Err(Refusal::Superseded));
        let (_, session) = append(Some(&session), &third, 3, 1).unwrap();
        assert_eq!(session.access(&second), SessionAccess::Superseded);
        assert_eq!(append(Some(&session), &second, 4, 1), Err(Refusal::Superseded));
        assert!(append(Some(&session), &third, 4, 1).is_ok());
        // Registered at the same time: the id decides which is the younger.
        let (left, right) = (sandbox("s-4", "acme", 4, true), sandbox("s-5", "acme", 4, true));
        let (_, held) = append(Some(&session), &right, 4, 1).unwrap();
        assert_eq!(held.access(&left), SessionAccess::Superseded);
    }

    #[test]
    fn unrelated_sandboxes_cannot_read_a_session() {
        let (_, session) = append(None, &sandbox("s-1", "acme", 1, false), 1, 1).unwrap();
        let unrelated = sandbox("s-2", "acme", 2, false);
        assert_eq!(session.access(&unrelated), SessionAccess::Unrelated);
        assert!(!SessionAccess::Unrelated.may_read() && SessionAccess::Superseded.may_read());
        assert_eq!(append(Some(&session), &unrelated, 2, 1), Err(Refusal::Superseded));
        // Even if it was registered to resume the session.
        let other_org = sandbox("s-3", "rival", 3, true);
        assert_eq!(session.access(&other_org), SessionAccess::OtherOrg);
        assert_eq!(append(Some(&session), &other_org, 2, 1), Err(Refusal::NotFound));
    }
}
