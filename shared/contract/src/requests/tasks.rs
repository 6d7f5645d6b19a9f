//! Requests about tasks.

use super::{LINE, NAME, PART};
use crate::agent;
use crate::execution::{MAX_NAME_CHARS, MAX_REPOSITORY_CHARS};
use crate::tasks::{MAX_DEPENDENCIES, MAX_RETRIES, MAX_TIMEOUT_SECS};
use domain::attempt::MAX_ERROR_CHARS;
use domain::resources::{MAX_CPU, MAX_DISK_GB, MAX_MEMORY_GB};
use domain::task::MergeMethod;
use domain::task::{BranchType, Priority};
use domain::ticket::MAX_TITLE_CHARS;
use domain::{JsonObject, OrgId, ProjectId, TaskId, TicketId, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

/// `POST /api/v1/tasks`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct NewTask {
    #[schemars(length(min = 1, max = MAX_TITLE_CHARS), regex(pattern = LINE))]
    pub title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Generated when absent. With an id, the request is idempotent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// Default: the org of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub org: Option<OrgId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket_id: Option<TicketId>,
    /// Default: the project of the ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// Default: `implementation`. Any name but `sandbox`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100), regex(pattern = NAME))]
    pub task_type: Option<String>,
    /// Default: `MEDIUM`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Default: `PHASE_IMPLEMENTATION`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100), regex(pattern = NAME))]
    pub phase_id: Option<String>,
    /// Tasks that must be completed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_DEPENDENCIES))]
    pub depends_on: Option<Vec<TaskId>>,
    /// The form of OmoiOS, instead of `depends_on`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<SetDependencies>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// Timeout of an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS))]
    pub timeout_seconds: Option<u64>,
    /// Number of automatic retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_RETRIES))]
    pub max_retries: Option<u32>,
    /// Whether the result must be reviewed. Default: `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<bool>,
    /// Name of an agent in the operator's list, such as `claude`. Default: the plane's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = agent::MAX_NAME_CHARS), regex(pattern = agent::NAME_PATTERN))]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS), regex(pattern = LINE))]
    pub model: Option<String>,
    /// A URL, or `owner/name` on GitHub.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_REPOSITORY_CHARS), regex(pattern = LINE))]
    pub repository: Option<String>,
    /// Together with `github_repo`, an alternative to `repository`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS), regex(pattern = PART))]
    pub github_owner: Option<String>,
    /// Together with `github_owner`, an alternative to `repository`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS), regex(pattern = PART))]
    pub github_repo: Option<String>,
    /// The branch to work on. Default: a new one that the plane names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS), regex(pattern = LINE))]
    pub branch: Option<String>,
    /// The branch that the work starts from and goes back to. Default: that of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS), regex(pattern = LINE))]
    pub base_branch: Option<String>,
    /// The first part of the name of a new branch. Default: what the title suggests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_type: Option<BranchType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_MEMORY_GB))]
    pub memory_gb: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_CPU))]
    pub cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_DISK_GB))]
    pub disk_gb: Option<u32>,
    /// The snapshot that the sandbox is created from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS), regex(pattern = LINE))]
    pub snapshot: Option<String>,
    /// Where the sandbox runs. Default: the plane's default provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100), regex(pattern = NAME))]
    pub provider: Option<String>,
    /// Whether the worker iterates until the work is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuous: Option<bool>,
}

/// `PATCH /api/v1/tasks/{id}`: at least one field.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, extend("minProperties" = 1))]
pub struct ChangeTask {
    /// Must not be `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, with = "String", length(min = 1, max = MAX_TITLE_CHARS), regex(pattern = LINE))]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// `null` removes the deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
}

/// `POST` and `PUT /api/v1/tasks/{id}/dependencies`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SetDependencies {
    #[schemars(length(max = MAX_DEPENDENCIES))]
    pub depends_on: Vec<TaskId>,
}

/// `POST /api/v1/tasks/{id}/set-timeout`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SetTimeout {
    #[schemars(range(min = 1, max = MAX_TIMEOUT_SECS))]
    pub timeout_seconds: u64,
}

/// `POST /api/v1/tasks/{id}/fail` and `…/cancel`. The body may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EndTask {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_ERROR_CHARS), regex(pattern = LINE))]
    pub reason: Option<String>,
}

/// `POST /api/v1/sandboxes/{id}/task-complete`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CompleteTask {
    /// The task that the worker works on, as far as it knows.
    pub task_id: TaskId,
    /// Default: `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<JsonObject>,
    /// Why it failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// `POST /api/v1/sandboxes/{id}/validation-result`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReviewTask {
    pub task_id: TaskId,
    pub passed: bool,
    /// Becomes part of the prompt of the next attempt.
    pub feedback: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommendations: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<JsonObject>,
}

/// `POST /api/v1/tasks/{id}/merge`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct MergeTask {
    /// Default: `squash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<MergeMethod>,
    /// The newest commit of the branch that the caller has seen. If there is a newer one, nothing is merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = "^[0-9A-Fa-f]*$"))]
    pub commit: Option<String>,
    /// Whether to delete the branch afterwards. Default: `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_branch: Option<bool>,
}
