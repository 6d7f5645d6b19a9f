//! Tasks, as they are asked for and shown.
//!
//! A list is an object with a page of tasks and the place where the next one starts. OmoiOS answered a bare array, which
//! has no room for that; its clients read `tasks` here.

mod asked;
mod reported;

pub use asked::{Create, DependsOn, Reason, SetTimeout, Update};
pub use reported::{Complete, Report, Review};

use domain::score::{ScoreInputs, Weights, score};
use domain::task::{Priority, Status};
use domain::{JsonObject, ProjectId, SandboxId, Task, TaskId, TicketId, Timestamp};
use serde::{Deserialize, Serialize};

/// Most tasks that one may wait for. What a change of them writes has to fit into one transaction.
pub const MAX_DEPENDENCIES: usize = 40;
/// Longest text of a task. Its worker is given it as one variable, which Linux limits to 128 KiB.
pub const MAX_DESCRIPTION_BYTES: usize = 100_000;
/// Longest time that a task may be given: a week.
pub const MAX_TIMEOUT_SECS: u64 = 7 * 86_400;
/// Most retries that one may ask for.
pub const MAX_RETRIES: u32 = 10;
/// The seeds' word for "has a sandbox", where a list asks for a kind of task.
pub const SANDBOX_TYPE: &str = "sandbox";

/// One task, as it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskOut {
    /// Its id.
    pub id: TaskId,
    /// What it is done for.
    pub ticket_id: Option<TicketId>,
    /// The project whose limit it counts towards.
    pub project_id: Option<ProjectId>,
    /// Phase of its ticket.
    pub phase_id: String,
    /// What kind of work.
    pub task_type: String,
    /// In a few words.
    pub title: String,
    /// In full.
    pub description: String,
    /// How much it matters.
    pub priority: Priority,
    /// Where it stands.
    pub status: Status,
    /// The sandbox of the current try, or of the last.
    pub sandbox_id: Option<SandboxId>,
    /// Always `null`: agents live in sandboxes. OmoiOS's clients look for it.
    pub assigned_agent_id: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When anything of it last changed.
    pub updated_at: Timestamp,
    /// When an agent first worked on it.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// How urgent it is now.
    pub score: f64,
    /// Number of the current try, or of the last.
    pub attempt: u32,
    /// How often it was tried again by itself.
    pub retry_count: u32,
    /// How often it may be.
    pub max_retries: u32,
    /// Why it, or the last try, failed.
    pub error_message: Option<String>,
    /// What came of it.
    pub result: Option<JsonObject>,
    /// What must be completed before it.
    pub dependencies: DependsOnOut,
    /// Whether something of that is not.
    pub blocked: bool,
    /// It is not tried before this.
    pub not_before: Option<Timestamp>,
    /// How long it may run.
    pub timeout_seconds: Option<u64>,
    /// When the try that is at work has run for so long, and is ended.
    pub times_out_at: Option<Timestamp>,
    /// When it should be done.
    pub deadline_at: Option<Timestamp>,
    /// Whether somebody has to look at the result before it counts.
    pub validation: bool,
    /// What whoever looked had to say.
    pub feedback: Option<String>,
}

impl TaskOut {
    /// A task on its way out.
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

/// What a task waits for, as OmoiOS spells it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DependsOnOut {
    /// Ids.
    pub depends_on: Vec<TaskId>,
}

/// `GET /api/v1/tasks`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskList {
    /// Newest first.
    pub tasks: Vec<TaskOut>,
    /// Give it back as `cursor` for the next page; `null` at the end.
    pub next_cursor: Option<String>,
    /// Whether there may be more. A page may be empty and have more behind it: few of many were asked for.
    pub has_more: bool,
}

/// `GET /api/v1/tasks/{id}/dependencies`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dependencies {
    /// Which task.
    pub task_id: TaskId,
    /// What it waits for.
    pub depends_on: Vec<TaskId>,
    /// Whether all of that is completed.
    pub dependencies_complete: bool,
    /// Those that wait for it, at most a hundred.
    pub blocked_tasks: Vec<BlockedTask>,
}

/// A task that waits for another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockedTask {
    /// Which.
    pub id: TaskId,
    /// The beginning of its text, or its title if it has none.
    pub description: String,
    /// Where it stands.
    pub status: Status,
}

impl BlockedTask {
    /// A task on its way out.
    pub fn new(task: &Task) -> Self {
        let text = if task.description.trim().is_empty() { &task.title } else { &task.description };
        let description = text.chars().take(MAX_BLOCKED_CHARS).collect();
        Self { id: task.id.clone(), description, status: task.status }
    }
}

/// Most of the text of a task that is listed beside another.
const MAX_BLOCKED_CHARS: usize = 500;

/// What came of `…/fail` and `…/cancel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Which task.
    pub task_id: TaskId,
    /// Where it stands now.
    pub status: Status,
    /// Where it stood.
    pub old_status: Status,
    /// Whether it was called off.
    pub cancelled: bool,
    /// Why.
    pub reason: String,
}

/// What came of `…/task-complete`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completed {
    /// `accepted`.
    pub status: String,
    /// Which task.
    pub task_id: TaskId,
    /// Where it stands now.
    pub new_status: String,
    /// Those that waited for it and wait for nothing any more.
    pub unblocked_tasks: Vec<TaskId>,
}

/// What came of `…/validation-result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reviewed {
    /// `accepted`.
    pub status: String,
    /// Which task.
    pub task_id: TaskId,
    /// What was said of it.
    pub validation_passed: bool,
    /// `completed`, or `needs_revision` and on its way to be tried again.
    pub new_task_status: String,
}
