//! Events about a task, emitted by the plane.

use crate::message::Sender;
use crate::task::Priority;
use crate::{JsonObject, SandboxId, TaskId, TicketId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A task and its ticket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskReference {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
}

/// An attempt of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskAttempt {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    pub sandbox_id: SandboxId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskCreated {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    pub title: String,
    pub task_type: String,
    pub priority: Priority,
    pub depends_on: Vec<TaskId>,
    /// The caller. Absent if the plane did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
}

/// The task is queued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskReady(pub TaskReference);

/// The task has left the queue for a new attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskClaimed(pub TaskAttempt);

/// The sandbox of the attempt is being provisioned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskAssigned(pub TaskAttempt);

/// The agent has started to work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskStarted(pub TaskAttempt);

/// The task is done: as its worker reported, or as a review decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
// `contract::tasks::TaskCompleted` is the response to the report of a worker.
#[schemars(rename = "TaskCompletedPayload")]
pub struct TaskCompleted {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// Number of the attempt, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The summary of the worker's final report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<JsonObject>,
    /// Present after a review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_passed: Option<bool>,
    /// Present after a review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// What the reviewer sent with the review, as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<JsonObject>,
    /// The caller. Absent if the plane did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
}

/// The branch of the task exists at the code host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskBranchCreated {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    pub repository: String,
    pub branch: String,
    /// The branch that the work starts from and goes back to.
    pub base: String,
    /// The commit of the base that it starts from.
    pub base_commit: String,
    /// The caller. Absent if the plane did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
}

/// The pull request of the task was opened, or updated after a further attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskPullRequestOpened {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    pub number: u64,
    pub url: String,
    pub branch: String,
    pub base: String,
    /// The commit that it proposes.
    pub commit: String,
    /// Whether it was open before.
    pub updated: bool,
    /// The caller. Absent if the plane did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
}

/// The pull request of the task was merged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskMerged {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    pub number: u64,
    pub base: String,
    /// The commit of the base that contains the work.
    pub commit: String,
    /// The caller. Absent if it was merged at the code host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
}

/// The agent has finished, and its branch becomes a pull request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskCompleting(pub TaskAttempt);

/// The result waits for a review.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskValidating {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    pub sandbox_id: SandboxId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The summary of the worker's final report.
    pub result: JsonObject,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskFailed {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// Number of the attempt that failed, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The error of the attempt or of the review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why a caller or a deadline ended the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `error` or `reason`, under the name that OmoiOS clients read.
    pub error_message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries_left: Option<u32>,
    /// The caller. Absent if the plane did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
}

/// A caller has cancelled the task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskCancelled {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    pub sandbox_id: Option<SandboxId>,
    pub reason: String,
    /// `reason`, under the name that OmoiOS clients read.
    pub error_message: String,
    /// The caller. Absent if the plane did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
}

/// An attempt failed and another will follow, or a caller retries the task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskRetrying {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// Number of the attempt that failed, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `error`, under the name that OmoiOS clients read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Number of the retry, from 1. 0 if a caller retries.
    pub retry: u32,
    pub max_retries: u32,
    /// When the next attempt may begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// A caller retries the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<bool>,
    /// The caller. Absent if the plane did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
}

/// The review rejected the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskNeedsRevision {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    pub validation_passed: bool,
    pub feedback: String,
    /// What the reviewer sent with the review, as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<JsonObject>,
    /// The caller. Absent if the plane did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
}

/// A caller has edited the task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskUpdated {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    /// Names of the fields that changed.
    pub changed: Vec<String>,
    pub title: String,
    pub priority: Priority,
    pub deadline_at: Option<Timestamp>,
    pub timeout_seconds: Option<u64>,
    /// The caller. Absent if the plane did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskDependenciesChanged {
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    pub depends_on: Vec<TaskId>,
    /// Number of dependencies that are not completed.
    pub unmet: u32,
    /// The caller. Absent if the plane did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
}
