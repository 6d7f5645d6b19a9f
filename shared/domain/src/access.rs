//! Who may do what.
//!
//! Two questions, asked in this order: may this kind of principal do this kind of thing at all
//! ([`permit`]), and is this sandbox one of its own ([`sees`], [`realm`])?

use crate::{OrgId, Sandbox, SandboxId};
use serde::{Deserialize, Serialize};

/// Who is asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Principal {
    /// Somebody on a public route: no one was asked who they are.
    Anonymous,
    /// The person who runs the plane. Sees every org.
    Operator,
    /// A person of one org.
    User {
        /// The subject of their token.
        id: String,
        /// Their org.
        org: OrgId,
        /// What they may do in it.
        role: Role,
    },
    /// The process in one sandbox. Its token dies when the sandbox's token generation moves on.
    Worker {
        /// Its sandbox.
        sandbox: SandboxId,
        /// The generation for which the token was made.
        generation: u32,
    },
}

/// What a person may do in their org.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Looks.
    Viewer,
    /// Looks, registers and steers.
    Member,
    /// Everything in the org.
    Admin,
}

/// What a route or a frame does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Nothing that is anybody's.
    Public,
    /// Reads one sandbox.
    ReadSandbox,
    /// Tells what happens in one sandbox: its log, and its agent's own record. What its worker does and nobody else.
    WriteEvents,
    /// Says something to a sandbox's agent.
    SendMessages,
    /// Takes the messages of a sandbox, and confirms them: what its worker does and nobody else.
    TakeMessages,
    /// Lists the sandboxes of an org.
    ListSandboxes,
    /// Adds a sandbox to an org, gives one a new worker token, or ends one.
    ManageSandboxes,
    /// Reads tasks and tickets of an org.
    ListTasks,
    /// Adds tasks and tickets to an org, changes them, or ends them.
    ManageTasks,
    /// Judges the result of a task: what people do. A worker that may would approve of its own work, because the only
    /// sandbox that it speaks for is the one in which the result was made.
    ReviewResult,
    /// Opens a socket. What it may see is decided per event by [`realm`] and [`sees`].
    OpenSocket,
}

/// Whether this kind of principal may do this kind of thing at all.
pub fn permit(principal: &Principal, scope: Scope) -> bool {
    match (principal, scope) {
        (_, Scope::Public) | (Principal::Operator, _) => true,
        (Principal::Anonymous, _) => false,
        (
            Principal::User { .. },
            Scope::ReadSandbox | Scope::ListSandboxes | Scope::ListTasks | Scope::OpenSocket,
        ) => true,
        (
            Principal::User { role, .. },
            Scope::ManageSandboxes | Scope::SendMessages | Scope::ManageTasks | Scope::ReviewResult,
        ) => *role >= Role::Member,
        (Principal::User { .. }, Scope::WriteEvents | Scope::TakeMessages) => false,
        (
            Principal::Worker { .. },
            Scope::ReadSandbox | Scope::WriteEvents | Scope::TakeMessages | Scope::OpenSocket,
        ) => true,
        (
            Principal::Worker { .. },
            Scope::ListSandboxes
            | Scope::ManageSandboxes
            | Scope::SendMessages
            | Scope::ListTasks
            | Scope::ManageTasks
            | Scope::ReviewResult,
        ) => false,
    }
}

/// How a principal stands to one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// It is one of theirs.
    Visible,
    /// It is somebody else's; that it exists is private.
    Hidden,
    /// A worker token of an earlier generation.
    Revoked,
}

/// How `principal` stands to the sandbox with this head.
pub fn can_see(principal: &Principal, head: &Sandbox) -> Visibility {
    match principal {
        Principal::Operator => Visibility::Visible,
        Principal::Anonymous => Visibility::Hidden,
        Principal::User { org, .. } if *org == head.org => Visibility::Visible,
        Principal::User { .. } => Visibility::Hidden,
        Principal::Worker { sandbox, .. } if *sandbox != head.id => Visibility::Hidden,
        Principal::Worker { generation, .. } if *generation != head.generation => Visibility::Revoked,
        Principal::Worker { .. } => Visibility::Visible,
    }
}

/// How `principal` stands to what belongs to an org and to no single sandbox: its tasks and tickets. A worker sees none
/// of it, not even the task it works on.
pub fn can_see_org(principal: &Principal, owner: &OrgId) -> Visibility {
    match principal {
        Principal::Operator => Visibility::Visible,
        Principal::User { org, .. } if org == owner => Visibility::Visible,
        Principal::User { .. } | Principal::Worker { .. } | Principal::Anonymous => Visibility::Hidden,
    }
}

/// The name under which an operator's subscriptions stand: no org can be called so.
pub const EVERY_ORG: &str = "*";

/// Where a user's or operator's subscriptions stand; a worker's stand with its sandbox's org.
pub fn realm(principal: &Principal) -> Option<&str> {
    match principal {
        Principal::Operator => Some(EVERY_ORG),
        Principal::User { org, .. } => Some(org.as_str()),
        Principal::Worker { .. } | Principal::Anonymous => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn head(id: &str, org: &str, generation: u32) -> Sandbox {
        let mut head = Sandbox::new(
            SandboxId::parse(id).unwrap(),
            OrgId::parse(org).unwrap(),
            None,
            Timestamp::from_micros(0),
        );
        head.generation = generation;
        head
    }

    #[test]
    fn a_worker_sees_its_sandbox_until_its_token_is_replaced() {
        let worker = Principal::Worker { sandbox: SandboxId::parse("s-1").unwrap(), generation: 2 };
        assert_eq!(can_see(&worker, &head("s-1", "acme", 2)), Visibility::Visible);
        assert_eq!(can_see(&worker, &head("s-1", "acme", 3)), Visibility::Revoked);
        assert_eq!(can_see(&worker, &head("s-2", "acme", 2)), Visibility::Hidden);
        assert!(permit(&worker, Scope::TakeMessages) && !permit(&worker, Scope::SendMessages));
    }

    #[test]
    fn a_result_is_judged_by_people_and_never_by_the_worker_that_made_it() {
        let user = |role| Principal::User { id: "u".into(), org: OrgId::parse("acme").unwrap(), role };
        let worker = Principal::Worker { sandbox: SandboxId::parse("s-1").unwrap(), generation: 1 };
        for (who, may) in [
            (user(Role::Viewer), false),
            (user(Role::Member), true),
            (user(Role::Admin), true),
            (Principal::Operator, true),
            (worker, false),
            (Principal::Anonymous, false),
        ] {
            assert_eq!(permit(&who, Scope::ReviewResult), may, "{who:?}");
        }
    }

    #[test]
    fn what_belongs_to_an_org_is_seen_by_its_people_and_by_no_worker() {
        let acme = OrgId::parse("acme").unwrap();
        let user = |org: &str| Principal::User {
            id: "u".into(),
            org: OrgId::parse(org).unwrap(),
            role: Role::Viewer,
        };
        let worker = Principal::Worker { sandbox: SandboxId::parse("acme").unwrap(), generation: 1 };
        assert_eq!(can_see_org(&user("acme"), &acme), Visibility::Visible);
        assert_eq!(can_see_org(&Principal::Operator, &acme), Visibility::Visible);
        for other in [user("rival"), worker, Principal::Anonymous] {
            assert_eq!(can_see_org(&other, &acme), Visibility::Hidden, "{other:?}");
        }
    }

    #[test]
    fn a_user_sees_their_org_only_and_an_operator_everything() {
        let user = |role| Principal::User { id: "u".into(), org: OrgId::parse("acme").unwrap(), role };
        assert_eq!(can_see(&user(Role::Admin), &head("s-1", "acme", 1)), Visibility::Visible);
        assert_eq!(can_see(&user(Role::Admin), &head("s-1", "rival", 1)), Visibility::Hidden);
        assert_eq!(can_see(&Principal::Operator, &head("s-1", "rival", 1)), Visibility::Visible);
        assert!(permit(&user(Role::Viewer), Scope::ReadSandbox));
        assert!(!permit(&user(Role::Viewer), Scope::ManageSandboxes));
        assert!(permit(&user(Role::Member), Scope::ManageSandboxes));
        assert!(!permit(&user(Role::Admin), Scope::WriteEvents));
        assert!(permit(&user(Role::Member), Scope::SendMessages));
        assert!(!permit(&user(Role::Viewer), Scope::SendMessages));
        assert!(!permit(&user(Role::Admin), Scope::TakeMessages), "people read the history instead");
    }
}
