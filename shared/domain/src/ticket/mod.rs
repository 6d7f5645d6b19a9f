//! A ticket: what a person wants done. Tasks do it.
//!
//! What may happen to a ticket is in [`transitions`]; whether it may be worked on at all is its [`Approval`]. Both are tables
//! of states. Whoever changes a ticket calls one of the functions there and writes what it gives back under the condition
//! that the ticket is still the one that was read.

pub mod approval;
pub mod transitions;
pub mod work;

pub use approval::{Approval, ApprovalSettings, ApprovalStatus};
pub use transitions::Refused;
pub use work::{NewTask, first_task, next_task};

use crate::task::{Execution, Priority};
use crate::{OrgId, ProjectId, TaskId, TicketId, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest title of a ticket, and of the task that is made of it.
pub const MAX_TITLE_CHARS: usize = 500;
/// How much of a description becomes the title of a ticket without one.
pub const TITLE_OF_DESCRIPTION_CHARS: usize = 100;
/// The kind of task that does what a ticket asks for.
pub const IMPLEMENT_FEATURE: &str = "implement_feature";
/// The kind of task that finds out what a ticket asks for.
pub const ANALYZE_REQUIREMENTS: &str = "analyze_requirements";

/// One ticket, as the plane knows it. Everything that was added since the first version has a default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Which ticket.
    pub id: TicketId,
    /// Whose.
    pub org: OrgId,
    /// In a few words.
    pub title: String,
    /// In full: what the person wrote.
    pub description: String,
    /// Where in the work it stands: `PHASE_IMPLEMENTATION`. Follows the status, and may be anything before the first
    /// move.
    pub phase: String,
    /// The phase before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_phase: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// How much it matters.
    pub priority: Priority,
    /// Present while something is in its way. Beside the status, not instead of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    /// Whether it may be worked on.
    #[serde(default)]
    pub approval: Approval,
    /// The project that its tasks count towards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectId>,
    /// The repository that it is about, as a URL or `owner/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// How it becomes tasks.
    #[serde(default)]
    pub workflow_mode: WorkflowMode,
    /// What the workers of its tasks are told beside the text.
    #[serde(default)]
    pub execution: Execution,
    /// On what terms its first task is done.
    #[serde(default)]
    pub terms: Terms,
    /// The task that began the work on it, once it may be worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_task: Option<TaskId>,
    /// Who wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// Fingerprint of what it was created from, to tell a repeat from a second ticket under the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When anything of it last changed.
    pub updated_at: Timestamp,
    /// Moves with every write.
    pub version: u64,
    /// The last sequence number of its log.
    #[serde(default)]
    pub seq: u64,
    /// How many items the log is stored in.
    #[serde(default)]
    pub segments: u64,
}

/// The title of a ticket that came without one: how its description begins, on one line.
pub fn title_of(description: &str) -> String {
    let start = description.trim().chars().take(TITLE_OF_DESCRIPTION_CHARS);
    let title: String = start.map(|c| if c.is_control() { ' ' } else { c }).collect();
    title.trim().to_owned()
}

/// Where a ticket stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Nobody has begun.
    Backlog,
    /// Somebody finds out what is wanted.
    Analyzing,
    /// It is being made.
    Building,
    /// It is made.
    BuildingDone,
    /// It is being tried.
    Testing,
    /// It is over.
    Done,
}

impl Status {
    /// Every status, in the usual order.
    pub const ALL: [Self; 6] =
        [Self::Backlog, Self::Analyzing, Self::Building, Self::BuildingDone, Self::Testing, Self::Done];

    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Backlog => "backlog",
            Self::Analyzing => "analyzing",
            Self::Building => "building",
            Self::BuildingDone => "building-done",
            Self::Testing => "testing",
            Self::Done => "done",
        }
    }

    /// From the wire.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// The phase that goes with it.
    pub fn phase(self) -> &'static str {
        match self {
            Self::Backlog => "PHASE_BACKLOG",
            Self::Analyzing => "PHASE_REQUIREMENTS",
            Self::Building => "PHASE_IMPLEMENTATION",
            Self::BuildingDone => "PHASE_DEPLOYMENT",
            Self::Testing => "PHASE_TESTING",
            Self::Done => "PHASE_DONE",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is in a ticket's way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// What: `dependency`, `waiting_on_clarification`, `failing_checks`, `environment`; or that the work on it is over
    /// without a result, [`TASK_FAILED`](transitions::TASK_FAILED) or [`TASK_CANCELLED`](transitions::TASK_CANCELLED).
    pub reason: String,
    /// Since when.
    pub at: Timestamp,
}

/// How a ticket becomes tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowMode {
    /// One task does all of it.
    Quick,
    /// First somebody finds out what is wanted.
    #[default]
    Phased,
}

impl WorkflowMode {
    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Phased => "phased",
        }
    }
}

/// On what terms a task is done. They stand with the ticket, because its task may be made long after it. What is absent
/// is as usual.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    /// How long it may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<u64>,
    /// How often it is tried again by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Whether somebody has to look at the result before it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<bool>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn ticket(status: Status) -> Ticket {
        Ticket {
            id: TicketId::parse("k-1").unwrap(),
            org: OrgId::parse("o-1").unwrap(),
            title: "Add a login page".into(),
            description: "With OAuth.".into(),
            phase: status.phase().into(),
            previous_phase: None,
            status,
            priority: Priority::High,
            blocked: None,
            approval: Approval::default(),
            project: None,
            repository: Some("acme/shop".into()),
            workflow_mode: WorkflowMode::Phased,
            execution: Execution::default(),
            terms: Terms::default(),
            first_task: None,
            created_by: None,
            digest: None,
            created_at: Timestamp::from_secs(100),
            updated_at: Timestamp::from_secs(100),
            version: 1,
            seq: 1,
            segments: 1,
        }
    }

    #[test]
    fn a_ticket_reads_back_what_it_wrote_and_what_an_older_version_wrote() {
        let full = Ticket {
            blocked: Some(Blocked { reason: "environment".into(), at: Timestamp::from_secs(5) }),
            status: Status::BuildingDone,
            workflow_mode: WorkflowMode::Quick,
            ..ticket(Status::Backlog)
        };
        let text = serde_json::to_string(&full).unwrap();
        assert!(
            text.contains(r#""status":"building-done""#) && text.contains(r#""workflow_mode":"quick""#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Ticket>(&text).unwrap(), full);
        let old = r#"{"id":"k-1","org":"o-1","title":"t","description":"d","phase":"PHASE_BACKLOG","status":"backlog",
            "priority":"LOW","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z","version":3,"new":1}"#;
        let old = serde_json::from_str::<Ticket>(old).unwrap();
        assert_eq!((old.workflow_mode, old.approval), (WorkflowMode::Phased, Approval::default()));
        for status in Status::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
            assert_eq!(Status::parse(status.as_str()), Some(status));
        }
        assert_eq!(Status::parse("building_done"), None);
    }
}
