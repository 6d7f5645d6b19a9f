//! A ticket: a user's request, carried out by tasks.
//!
//! [`transitions`] has the status table, and [`Approval`] decides whether work may start. A caller writes what these
//! functions return under the condition that the stored ticket is still the one that was read.

pub mod approval;
pub mod merge;
pub mod transitions;
pub mod work;

pub use approval::{Approval, ApprovalSettings, ApprovalStatus};
pub use transitions::Refused;
pub use work::{NewTask, first_task, next_task, resolve_conflicts};

use crate::task::{Execution, Priority};
use crate::{OrgId, ProjectId, TaskId, TicketId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum length of the title of a ticket and of its tasks.
pub const MAX_TITLE_CHARS: usize = 500;
/// Maximum length of a title that is derived from the description.
pub const TITLE_OF_DESCRIPTION_CHARS: usize = 100;
/// Type of the task that implements a ticket.
pub const IMPLEMENT_FEATURE: &str = "implement_feature";
/// Type of the task that analyzes the requirements of a ticket.
pub const ANALYZE_REQUIREMENTS: &str = "analyze_requirements";
/// Type of a task that resolves the conflicts of another task's branch.
pub const RESOLVE_CONFLICTS: &str = "resolve_conflicts";

/// Every field that was added since the first version has a default, so that older items can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    pub id: TicketId,
    pub org: OrgId,
    pub title: String,
    pub description: String,
    /// For example `PHASE_IMPLEMENTATION`. Follows the status; before the first transition the client may choose it.
    pub phase: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_phase: Option<String>,
    pub status: Status,
    pub priority: Priority,
    /// Present while the ticket is blocked, which is independent of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    #[serde(default)]
    pub approval: Approval,
    /// The project whose concurrency limit its tasks count towards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectId>,
    /// A URL or `owner/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    #[serde(default)]
    pub workflow_mode: WorkflowMode,
    /// Settings for the workers of its tasks.
    #[serde(default)]
    pub execution: Execution,
    #[serde(default)]
    pub task_options: TaskOptions,
    /// The first task, once the ticket is approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_task: Option<TaskId>,
    /// The latest merge of all its finished branches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<merge::TicketMerge>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// Hash of the create request, to tell a retry from another ticket with the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Grows with every write: a write is conditional on the version that was read.
    pub version: u64,
    #[serde(default)]
    pub seq: u64,
    /// Number of items that hold the log.
    #[serde(default)]
    pub segments: u64,
}

/// The default title: the beginning of the description, on one line.
pub fn title_of(description: &str) -> String {
    let start = description.trim().chars().take(TITLE_OF_DESCRIPTION_CHARS);
    let title: String = start.map(|c| if c.is_control() { ' ' } else { c }).collect();
    title.trim().to_owned()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "TicketStatus")]
pub enum Status {
    Backlog,
    /// The requirements are being analyzed.
    Analyzing,
    Building,
    BuildingDone,
    Testing,
    Done,
}

impl Status {
    /// In the usual order.
    pub const ALL: [Self; 6] =
        [Self::Backlog, Self::Analyzing, Self::Building, Self::BuildingDone, Self::Testing, Self::Done];

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

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

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

/// Why a ticket is blocked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// `dependency`, `waiting_on_clarification`, `failing_checks`, `environment`; or, if a task ended without a result,
    /// [`TASK_FAILED`](transitions::TASK_FAILED) or [`TASK_CANCELLED`](transitions::TASK_CANCELLED).
    pub reason: String,
    pub at: Timestamp,
}

/// Which tasks a ticket gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowMode {
    /// One task that implements it.
    Quick,
    /// A task that analyzes the requirements, then one that implements them.
    #[default]
    Phased,
}

impl WorkflowMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Phased => "phased",
        }
    }
}

/// Options for the tasks of a ticket. They are stored with the ticket, because its tasks may be created much later. Absent
/// fields use the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Whether the result must be reviewed.
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
            task_options: TaskOptions::default(),
            first_task: None,
            merge: None,
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
    fn tickets_of_this_and_older_versions_can_be_read() {
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
