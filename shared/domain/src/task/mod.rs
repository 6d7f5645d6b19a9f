//! A task: one unit of work for an agent, from the request to the result.
//!
//! [`transitions`] has a function per transition. A caller writes what the function returns under the condition that the
//! stored task is still the one that was read, so a report that is late, repeated or from another sandbox changes nothing.

pub mod branch;
mod delivery;
pub mod edits;
mod feedback;
pub mod transitions;

use crate::feedback::Rounds;
use crate::{JsonObject, OrgId, ProjectId, SandboxId, TaskId, TicketId, Timestamp};
pub use branch::{BranchType, MergeMethod, PullRequestLink, TaskBranch, branch_name};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default for the number of automatic retries.
pub const MAX_RETRIES: u32 = 3;

/// Maximum number of revisions after a rejected review.
pub const MAX_REVISIONS: u32 = 3;

/// Every field that was added since the first version has a default, so that older items can be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    pub org: OrgId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<TicketId>,
    /// The project whose concurrency limit it counts towards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectId>,
    /// For example `implement_feature`.
    pub task_type: String,
    pub title: String,
    /// The prompt for the agent.
    pub description: String,
    /// Phase of the ticket.
    pub phase: String,
    pub priority: Priority,
    pub status: Status,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// When an agent first worked on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// When it reached its current status.
    pub since: Timestamp,
    /// Tasks that must be completed before this one starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<TaskId>,
    /// Number of dependencies that are not completed. At 0 the task is ready.
    #[serde(default)]
    pub unmet: u32,
    /// Number of tasks that wait for this one.
    #[serde(default)]
    pub dependents: u32,
    /// Present while the task is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Number of the current or last attempt; 0 before the first.
    #[serde(default)]
    pub attempt: u32,
    /// The sandbox of that attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxId>,
    /// Automatic retries since the task was created or retried manually.
    #[serde(default)]
    pub retry_count: u32,
    pub max_retries: u32,
    /// No attempt starts before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// Whether the result must be reviewed.
    #[serde(default)]
    pub validation: bool,
    /// Feedback of the last review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// Number of rejected reviews.
    #[serde(default)]
    pub revisions: u32,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::json::as_text")]
    pub result: Option<JsonObject>,
    /// Why the task, or its last attempt, failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default)]
    pub execution: Execution,
    /// Present once its branch exists at the code host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<TaskBranch>,
    /// Feedback on its pull request. Present once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<Rounds>,
    /// Hash of the create request, to tell a retry from another task with the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Grows with every write: a write is conditional on the version that was read.
    pub version: u64,
    #[serde(default)]
    pub seq: u64,
    /// Number of items that hold the log.
    #[serde(default)]
    pub segments: u64,
}

impl Task {
    /// Whether a sweep has to check the task, besides its sandbox.
    pub fn needs_reconcile(&self) -> bool {
        self.awaits_transition() || self.reads_feedback_at().is_some()
    }

    /// Whether reconciliation has something to do although no sandbox works on the task: it waits for a retry or a
    /// review, or it is completed and has dependents to unblock.
    pub fn awaits_transition(&self) -> bool {
        match self.status {
            Status::Pending => self.not_before.is_some() && self.place.is_none(),
            Status::Validating | Status::NeedsRevision => true,
            // Some dependents are not unblocked yet.
            Status::Completed => self.dependents > 0,
            _ => false,
        }
    }
}

/// Settings for the worker and its sandbox. Absent fields use the configuration of the plane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Execution {
    /// Name of an agent in the operator's list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A URL or `owner/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The branch to work on. If absent, the plane names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The branch that the work starts from and goes back to. Default: that of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_branch: Option<String>,
    /// The first part of the name of the branch. If absent, the title suggests one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_type: Option<BranchType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_gb: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Whether the worker iterates until the work is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuous: Option<bool>,
}

#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum Priority {
    Low,
    #[default]
    Medium,
    High,
    Critical,
}

impl Priority {
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "LOW",
            Self::Medium => "MEDIUM",
            Self::High => "HIGH",
            Self::Critical => "CRITICAL",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TaskStatus")]
pub enum Status {
    /// Waits for its dependencies, in the queue, or for a retry.
    Pending,
    /// Claimed: its sandbox is recorded and not provisioned yet.
    Claiming,
    /// Its sandbox is being provisioned.
    Assigned,
    /// An agent works on it.
    Running,
    /// The agent has finished, and its branch becomes a pull request.
    Completing,
    /// The result must be reviewed.
    Validating,
    /// The review rejected the result.
    NeedsRevision,
    Completed,
    /// Not retried automatically.
    Failed,
    Cancelled,
}

impl Status {
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Claiming,
        Self::Assigned,
        Self::Running,
        Self::Completing,
        Self::Validating,
        Self::NeedsRevision,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Claiming => "claiming",
            Self::Assigned => "assigned",
            Self::Running => "running",
            Self::Completing => "completing",
            Self::Validating => "validating",
            Self::NeedsRevision => "needs_revision",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether an attempt is in progress. Active tasks count towards the concurrency limits.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Claiming | Self::Assigned | Self::Running | Self::Completing)
    }

    /// A final status changes only by a manual retry.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A place in the queue. It does not change while the task waits: see [`crate::score`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Smaller is sooner: see [`crate::score::rank`].
    pub rank: i64,
    /// A task with a deadline is also in the index of deadlines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
}
