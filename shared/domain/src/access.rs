//! Authorization.
//!
//! Two checks, in this order: does this kind of principal have the scope at all ([`permit`]), and is the entity visible to
//! it ([`can_see`], [`can_see_org`], [`realm`])?

use crate::{OrgId, Sandbox, SandboxId, Source, Timestamp};
use serde::{Deserialize, Serialize};

/// The caller of a request, after authentication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Principal {
    /// The caller of a public route, which does not authenticate.
    Anonymous,
    /// Runs the plane. Sees every org.
    Operator {
        /// Names the operator in logs and events; `local` on a local plane.
        #[serde(default = "unnamed")]
        name: String,
    },
    User {
        /// The subject of the token.
        id: String,
        org: OrgId,
        role: Role,
    },
    /// The worker of one sandbox. Its token is revoked when the sandbox's token generation grows.
    Worker {
        sandbox: SandboxId,
        /// The generation for which the token was issued.
        generation: u32,
    },
}

impl Principal {
    pub fn operator(name: impl Into<String>) -> Self {
        Self::Operator { name: name.into() }
    }

    /// The plane itself, for changes that no caller asked for.
    pub fn plane() -> Self {
        Self::operator("plane")
    }
}

/// The operator of a token that names none.
fn unnamed() -> String {
    UNNAMED_OPERATOR.to_owned()
}

/// The name of the operator if the plane has one token without a name.
pub const UNNAMED_OPERATOR: &str = "operator";

/// Before the name of an operator in tickets, where the id of a user has no prefix.
pub const OPERATOR_PREFIX: &str = "operator:";

/// Whether this could be taken for an operator in a ticket, so that it must not be the id of a user.
pub fn looks_like_operator(id: &str) -> bool {
    let start = id.as_bytes().get(..OPERATOR_PREFIX.len());
    id.eq_ignore_ascii_case(UNNAMED_OPERATOR)
        || start.is_some_and(|start| start.eq_ignore_ascii_case(OPERATOR_PREFIX.as_bytes()))
}

/// A user's role in their org. A greater role includes the smaller ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads, registers sandboxes, sends messages, and manages tasks and tickets.
    Member,
    Admin,
}

/// What a route or a WebSocket frame requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// No authentication.
    Public,
    /// No token: the handler checks that the sender has signed the request.
    Webhook,
    ReadSandbox,
    /// Appends to the log and the session of one sandbox. Only for its worker.
    WriteEvents,
    /// Sends messages to a sandbox's agent.
    SendMessages,
    /// Pulls and acknowledges the messages of a sandbox. Only for its worker.
    PullMessages,
    /// Gets a credential for the repository of a sandbox. Only for its worker.
    GitAccess,
    ListSandboxes,
    /// Registers and terminates sandboxes.
    ManageSandboxes,
    /// Replaces the worker token of a sandbox: who has it can report in the name of the running worker.
    RotateTokens,
    /// Reads tasks and tickets.
    ListTasks,
    /// Creates, changes and cancels tasks and tickets.
    ManageTasks,
    /// Reviews the result of a task. Only for people: a worker would approve its own work, because its token is only valid
    /// for the sandbox that produced the result.
    ReviewResult,
    /// Opens a socket. [`realm`] and [`can_see`] decide per event what it receives.
    OpenSocket,
}

impl Scope {
    /// Whether a request names its caller with a token.
    pub fn needs_token(self) -> bool {
        !matches!(self, Self::Public | Self::Webhook)
    }
}

/// Whether this kind of principal has the scope at all.
pub fn permit(principal: &Principal, scope: Scope) -> bool {
    match (principal, scope) {
        (_, Scope::Public | Scope::Webhook) | (Principal::Operator { .. }, _) => true,
        (Principal::Anonymous, _) => false,
        (
            Principal::User { .. },
            Scope::ReadSandbox | Scope::ListSandboxes | Scope::ListTasks | Scope::OpenSocket,
        ) => true,
        (
            Principal::User { role, .. },
            Scope::ManageSandboxes | Scope::SendMessages | Scope::ManageTasks | Scope::ReviewResult,
        ) => *role >= Role::Member,
        (Principal::User { role, .. }, Scope::RotateTokens) => *role >= Role::Admin,
        (Principal::User { .. }, Scope::WriteEvents | Scope::PullMessages | Scope::GitAccess) => false,
        (
            Principal::Worker { .. },
            Scope::ReadSandbox
            | Scope::WriteEvents
            | Scope::PullMessages
            | Scope::GitAccess
            | Scope::OpenSocket,
        ) => true,
        (
            Principal::Worker { .. },
            Scope::ListSandboxes
            | Scope::ManageSandboxes
            | Scope::RotateTokens
            | Scope::SendMessages
            | Scope::ListTasks
            | Scope::ManageTasks
            | Scope::ReviewResult,
        ) => false,
    }
}

/// The sources that `principal` may claim for the events that it posts. `user` and `system` are left out everywhere: only
/// the plane itself writes events of people and its own.
pub fn claimable_sources(principal: &Principal) -> &'static [Source] {
    match principal {
        // OmoiOS's guardian posts with the operator's token.
        Principal::Operator { .. } => &[Source::Agent, Source::Worker, Source::Guardian],
        Principal::Worker { .. } => &[Source::Agent, Source::Worker],
        Principal::User { .. } | Principal::Anonymous => &[],
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    Visible,
    /// Belongs to another org or sandbox. The caller must not learn that it exists.
    Hidden,
    /// The worker token is of an earlier generation.
    Revoked,
    /// The sandbox of the worker token has ended.
    Ended,
}

/// Whether `principal` may see a sandbox.
pub fn can_see(principal: &Principal, sandbox: &Sandbox) -> Visibility {
    match principal {
        Principal::Operator { .. } => Visibility::Visible,
        Principal::Anonymous => Visibility::Hidden,
        Principal::User { org, .. } if *org == sandbox.org => Visibility::Visible,
        Principal::User { .. } => Visibility::Hidden,
        Principal::Worker { sandbox: own, .. } if *own != sandbox.id => Visibility::Hidden,
        Principal::Worker { generation, .. } if *generation != sandbox.generation => Visibility::Revoked,
        Principal::Worker { .. } if sandbox.status().is_final() => Visibility::Ended,
        Principal::Worker { .. } => Visibility::Visible,
    }
}

/// How long a worker may report after its sandbox has ended: it flushes what it has observed.
pub const REPORT_GRACE_SECS: i64 = 600;

/// As [`can_see`], for what a worker reports: events, receipts, session entries, its task's result. A worker may do that for
/// a while after its sandbox has ended. It can read nothing then but the record of its sandbox, whose last epoch it needs.
pub fn can_report(principal: &Principal, sandbox: &Sandbox, now: Timestamp) -> Visibility {
    match can_see(principal, sandbox) {
        Visibility::Ended if sandbox.ended_at().is_none_or(|at| now <= at.plus_secs(REPORT_GRACE_SECS)) => {
            Visibility::Visible
        }
        other => other,
    }
}

/// Whether `principal` may see the tasks and tickets of an org. A worker sees none, not even the task that it works on.
pub fn can_see_org(principal: &Principal, owner: &OrgId) -> Visibility {
    match principal {
        Principal::Operator { .. } => Visibility::Visible,
        Principal::User { org, .. } if org == owner => Visibility::Visible,
        Principal::User { .. } | Principal::Worker { .. } | Principal::Anonymous => Visibility::Hidden,
    }
}

/// The realm of operators, who see every org. It is not a valid org id.
pub const EVERY_ORG: &str = "*";

/// The realm whose events a caller may subscribe to: its org, or every org. `None` for a worker: its subscriptions belong
/// to the org of its sandbox.
pub fn realm(principal: &Principal) -> Option<&str> {
    match principal {
        Principal::Operator { .. } => Some(EVERY_ORG),
        Principal::User { org, .. } => Some(org.as_str()),
        Principal::Worker { .. } | Principal::Anonymous => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn sandbox(id: &str, org: &str, generation: u32) -> Sandbox {
        let mut sandbox = Sandbox::new(
            SandboxId::parse(id).unwrap(),
            OrgId::parse(org).unwrap(),
            None,
            Timestamp::from_micros(0),
        );
        sandbox.generation = generation;
        sandbox
    }

    #[test]
    fn a_worker_sees_only_its_sandbox_until_its_token_is_revoked() {
        let worker = Principal::Worker { sandbox: SandboxId::parse("s-1").unwrap(), generation: 2 };
        assert_eq!(can_see(&worker, &sandbox("s-1", "acme", 2)), Visibility::Visible);
        assert_eq!(can_see(&worker, &sandbox("s-1", "acme", 3)), Visibility::Revoked);
        assert_eq!(can_see(&worker, &sandbox("s-2", "acme", 2)), Visibility::Hidden);
        assert!(permit(&worker, Scope::PullMessages) && !permit(&worker, Scope::SendMessages));
    }

    #[test]
    fn token_of_an_ended_sandbox_is_only_for_final_reports_and_not_for_long() {
        let worker = Principal::Worker { sandbox: SandboxId::parse("s-1").unwrap(), generation: 1 };
        let (end, running) = (Timestamp::from_secs(1_000), sandbox("s-1", "acme", 1));
        assert_eq!(can_report(&worker, &running, end), Visibility::Visible);
        let mut ended = running.with_status(crate::sandbox::Status::Terminated);
        ended.activity.ended = Some(crate::sandbox::Ended { at: end, reason: "too slow".into() });
        assert_eq!(can_see(&worker, &ended), Visibility::Ended);
        let last = end.plus_secs(REPORT_GRACE_SECS);
        assert_eq!(can_report(&worker, &ended, last), Visibility::Visible);
        assert_eq!(can_report(&worker, &ended, last.plus_secs(1)), Visibility::Ended);
        ended.generation = 2;
        assert_eq!(can_report(&worker, &ended, end), Visibility::Revoked, "it is released");
        for other in [
            Principal::operator("local"),
            Principal::User { id: "u".into(), org: OrgId::parse("acme").unwrap(), role: Role::Viewer },
        ] {
            assert_eq!(
                can_see(&other, &ended),
                Visibility::Visible,
                "people read the log of a sandbox that has ended"
            );
        }
    }

    #[test]
    fn workers_may_not_review_results() {
        let user = |role| Principal::User { id: "u".into(), org: OrgId::parse("acme").unwrap(), role };
        let worker = Principal::Worker { sandbox: SandboxId::parse("s-1").unwrap(), generation: 1 };
        for (principal, allowed) in [
            (user(Role::Viewer), false),
            (user(Role::Member), true),
            (user(Role::Admin), true),
            (Principal::operator("local"), true),
            (worker, false),
            (Principal::Anonymous, false),
        ] {
            assert_eq!(permit(&principal, Scope::ReviewResult), allowed, "{principal:?}");
        }
    }

    #[test]
    fn only_the_plane_writes_events_of_people_and_of_the_plane() {
        let user = Principal::User { id: "u".into(), org: OrgId::parse("acme").unwrap(), role: Role::Admin };
        let worker = Principal::Worker { sandbox: SandboxId::parse("s-1").unwrap(), generation: 1 };
        for principal in [&user, &worker, &Principal::operator("local"), &Principal::Anonymous] {
            let sources = claimable_sources(principal);
            assert!(!sources.contains(&Source::User) && !sources.contains(&Source::System), "{principal:?}");
        }
        assert!(!claimable_sources(&worker).contains(&Source::Guardian));
    }

    #[test]
    fn only_admins_and_operators_rotate_tokens() {
        let user = |role| Principal::User { id: "u".into(), org: OrgId::parse("acme").unwrap(), role };
        let worker = Principal::Worker { sandbox: SandboxId::parse("s-1").unwrap(), generation: 1 };
        for (principal, allowed) in [
            (user(Role::Viewer), false),
            (user(Role::Member), false),
            (user(Role::Admin), true),
            (Principal::operator("local"), true),
            (worker, false),
            (Principal::Anonymous, false),
        ] {
            assert_eq!(permit(&principal, Scope::RotateTokens), allowed, "{principal:?}");
        }
    }

    #[test]
    fn operators_stored_without_a_name_can_be_read() {
        let stored: Principal = serde_json::from_str(r#"{"kind":"operator"}"#).unwrap();
        assert_eq!(stored, Principal::operator(UNNAMED_OPERATOR));
    }

    #[test]
    fn tasks_and_tickets_are_visible_to_users_of_the_org_only() {
        let acme = OrgId::parse("acme").unwrap();
        let user = |org: &str| Principal::User {
            id: "u".into(),
            org: OrgId::parse(org).unwrap(),
            role: Role::Viewer,
        };
        let worker = Principal::Worker { sandbox: SandboxId::parse("acme").unwrap(), generation: 1 };
        assert_eq!(can_see_org(&user("acme"), &acme), Visibility::Visible);
        assert_eq!(can_see_org(&Principal::operator("local"), &acme), Visibility::Visible);
        for other in [user("rival"), worker, Principal::Anonymous] {
            assert_eq!(can_see_org(&other, &acme), Visibility::Hidden, "{other:?}");
        }
    }

    #[test]
    fn users_see_their_org_and_operators_see_every_org() {
        let user = |role| Principal::User { id: "u".into(), org: OrgId::parse("acme").unwrap(), role };
        assert_eq!(can_see(&user(Role::Admin), &sandbox("s-1", "acme", 1)), Visibility::Visible);
        assert_eq!(can_see(&user(Role::Admin), &sandbox("s-1", "rival", 1)), Visibility::Hidden);
        assert_eq!(can_see(&Principal::operator("local"), &sandbox("s-1", "rival", 1)), Visibility::Visible);
        assert!(permit(&user(Role::Viewer), Scope::ReadSandbox));
        assert!(!permit(&user(Role::Viewer), Scope::ManageSandboxes));
        assert!(permit(&user(Role::Member), Scope::ManageSandboxes));
        assert!(!permit(&user(Role::Admin), Scope::WriteEvents));
        assert!(permit(&user(Role::Member), Scope::SendMessages));
        assert!(!permit(&user(Role::Viewer), Scope::SendMessages));
        assert!(!permit(&user(Role::Admin), Scope::PullMessages), "users read the history instead");
    }
}
