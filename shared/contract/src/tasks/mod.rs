//! Requests and responses about tasks.
//!
//! A list is an object with a page of tasks and a cursor. OmoiOS responded with an array, which has no room for a cursor;
//! its clients read `tasks` here.

mod branches;
mod reports;
mod requests;

pub use branches::{CheckOut, FeedbackOut, FileDiff, MergeRequest, MergedOut, PullRequestOut, TaskDiff};
pub use reports::{Complete, Report, Review};
pub use requests::{Create, DependsOn, Reason, SetTimeout, Update};

use domain::score::{ScoreInputs, Weights, score};
use domain::task::{Priority, Status, TaskBranch};
use domain::{JsonObject, ProjectId, SandboxId, Task, TaskId, TicketId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of dependencies: a change of all of them must fit into one transaction.
pub const MAX_DEPENDENCIES: usize = 40;
/// Maximum size of a description. A worker gets it as an environment variable, which Linux limits to 128 KiB.
pub const MAX_DESCRIPTION_BYTES: usize = 100_000;
/// A week.
pub const MAX_TIMEOUT_SECS: u64 = 7 * 86_400;
pub const MAX_RETRIES: u32 = 10;
/// In a list request of OmoiOS clients, this task type means "has a sandbox".
pub const SANDBOX_TYPE: &str = "sandbox";

/// A task in a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskOut {
    pub id: TaskId,
    pub ticket_id: Option<TicketId>,
    /// The project whose concurrency limit it counts towards.
    pub project_id: Option<ProjectId>,
    /// Phase of the ticket.
    pub phase_id: String,
    /// For example `implement_feature`.
    pub task_type: String,
    pub title: String,
    pub description: String,
    pub priority: Priority,
    pub status: Status,
    /// The sandbox of the current or last attempt.
    pub sandbox_id: Option<SandboxId>,
    /// Always `null`. OmoiOS clients expect the field.
    pub assigned_agent_id: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// When an agent first worked on it.
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    /// Priority score now; larger is more urgent.
    pub score: f64,
    /// Number of the current or last attempt.
    pub attempt: u32,
    /// Number of automatic retries.
    pub retry_count: u32,
    pub max_retries: u32,
    /// Why the task, or its last attempt, failed.
    pub error_message: Option<String>,
    pub result: Option<JsonObject>,
    /// The branch that carries the work, once it exists at the code host.
    pub branch: Option<TaskBranch>,
    /// Tasks that must be completed before this one starts.
    pub dependencies: DependsOnOut,
    /// Whether a dependency is not completed.
    pub blocked: bool,
    /// No attempt starts before this time.
    pub not_before: Option<Timestamp>,
    pub timeout_seconds: Option<u64>,
    /// When the running attempt exceeds its timeout.
    pub times_out_at: Option<Timestamp>,
    pub deadline_at: Option<Timestamp>,
    /// Whether the result must be reviewed.
    pub validation: bool,
    /// Feedback of the last review.
    pub feedback: Option<String>,
}

impl TaskOut {
    pub fn new(task: &Task, weights: &Weights, now: Timestamp) -> Self {
        Self {
            id: task.id.clone(),
            ticket_id: task.ticket.clone(),
            project_id: task.project.clone(),
            phase_id: task.phase.clone(),
            task_type: task.task_type.clone(),
            title: task.title.clone(),
            description: task.description.clone(),
            priority: task.priority,
            status: task.status,
            sandbox_id: task.sandbox.clone(),
            assigned_agent_id: None,
            created_at: task.created_at,
            updated_at: task.updated_at,
            started_at: task.started_at,
            completed_at: task.completed_at,
            score: score(&ScoreInputs::from(task), now, weights),
            attempt: task.attempt,
            retry_count: task.retry_count,
            max_retries: task.max_retries,
            error_message: task.error.clone(),
            result: task.result.clone(),
            branch: task.branch.clone(),
            dependencies: DependsOnOut { depends_on: task.depends_on.clone() },
            blocked: task.unmet > 0,
            not_before: task.not_before,
            timeout_seconds: task.timeout_secs,
            times_out_at: times_out_at(task),
            deadline_at: task.deadline_at,
            validation: task.validation,
            feedback: task.feedback.clone(),
        }
    }
}

fn times_out_at(task: &Task) -> Option<Timestamp> {
    let timeout_secs = task.timeout_secs.filter(|_| task.status == Status::Running)?;
    Some(task.since.plus_secs(i64::try_from(timeout_secs).ok()?))
}

/// Dependencies in the format of OmoiOS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DependsOnOut {
    pub depends_on: Vec<TaskId>,
}

/// `GET /api/v1/tasks`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskList {
    /// Newest first.
    pub tasks: Vec<TaskOut>,
    /// Send it as `cursor` for the next page; `null` on the last page.
    pub next_cursor: Option<String>,
    /// Whether there may be more. With filters, a page may be empty and not the last.
    pub has_more: bool,
}

/// `GET /api/v1/tasks/{id}/dependencies`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TaskDependencies")]
pub struct Dependencies {
    pub task_id: TaskId,
    pub depends_on: Vec<TaskId>,
    /// Whether all dependencies are completed.
    pub dependencies_complete: bool,
    /// Tasks that depend on this one, at most a hundred.
    pub blocked_tasks: Vec<BlockedTask>,
}

/// A task that depends on another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockedTask {
    pub id: TaskId,
    /// The beginning of the description, or the title if there is none.
    pub description: String,
    pub status: Status,
}

impl BlockedTask {
    pub fn new(task: &Task) -> Self {
        let text = if task.description.trim().is_empty() { &task.title } else { &task.description };
        let description = text.chars().take(MAX_BLOCKED_CHARS).collect();
        Self { id: task.id.clone(), description, status: task.status }
    }
}

/// Maximum length of the description in [`BlockedTask`].
const MAX_BLOCKED_CHARS: usize = 500;

/// Response to `…/fail` and `…/cancel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TaskEnded")]
pub struct Ended {
    pub task_id: TaskId,
    pub status: Status,
    pub old_status: Status,
    pub cancelled: bool,
    pub reason: String,
}

/// Response to `…/task-complete`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TaskCompleted")]
pub struct Completed {
    /// `accepted`.
    pub status: String,
    pub task_id: TaskId,
    pub new_status: String,
    /// Tasks that have no unmet dependency any more.
    pub unblocked_tasks: Vec<TaskId>,
}

/// Response to `…/validation-result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TaskReviewed")]
pub struct Reviewed {
    /// `accepted`.
    pub status: String,
    pub task_id: TaskId,
    pub validation_passed: bool,
    /// `completed`, or `needs_revision`, which is followed by another attempt.
    pub new_task_status: String,
}
