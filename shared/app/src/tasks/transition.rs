//! What people do to a task: they call it off, say that it has failed, or want it after all.

use crate::error::Error;
use crate::visibility::visible_task;
use crate::{orchestration, race, tasks};
use domain::access::Principal;
use domain::task::Status;
use domain::{Task, TaskId};
use serde_json::json;

/// What it touches.
pub type Deps<'a> = orchestration::Deps<'a>;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Which one.
    pub task: TaskId,
    /// What is to happen to it.
    pub step: Step,
}

/// What somebody does to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// They say that it has failed.
    Fail {
        /// Why.
        reason: String,
    },
    /// They call it off.
    Cancel {
        /// Why.
        reason: String,
    },
    /// They want it after all.
    Retry,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Where it stood.
    pub before: Status,
    /// The task, as it is now.
    pub task: Task,
}

/// A repeat is refused, and told where the task stands: it is there already.
///
/// A sandbox that is at work for the task is taken down by whoever tends it; its slot is free at once.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let mut race = race::Race::new(deps.clock);
    loop {
        let task = visible_task(deps.store, &command.principal, &command.task).await?;
        let (now, weights) = (deps.clock.now(), &deps.orchestration.weights);
        let moved = match &command.step {
            Step::Fail { reason } => task.give_up(reason, now).ok_or_else(|| over(&task))?,
            Step::Cancel { reason } => task.cancel(reason, now).ok_or_else(|| over(&task))?,
            Step::Retry => task.retry(weights, now).ok_or_else(|| not_over(&task))?,
        };
        if let Some(after) = tasks::commit::write(deps, &task, moved).await? {
            return Ok(Outcome { before: task.status, task: after });
        }
        race.lost().await?;
    }
}

/// What cannot be done to a task that is over.
pub(crate) fn over(task: &Task) -> Error {
    let (id, status) = (&task.id, task.status.as_str());
    Error::conflict(
        "task_over",
        format!("Task {id} is over: it is {status}."),
        json!({"current_status": status}),
    )
}

fn not_over(task: &Task) -> Error {
    let (id, status) = (&task.id, task.status.as_str());
    let detail = format!("Task {id} is {status}; only a task that has failed or was cancelled is retried.");
    Error::conflict("task_not_over", detail, json!({"current_status": status}))
}
