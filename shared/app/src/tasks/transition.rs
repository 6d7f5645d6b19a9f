//! Transitions of a task that users request: fail, cancel or retry.

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::visibility::visible_task;
use crate::{orchestration, tasks};
use contract::ProblemCode;
use domain::access::Principal;
use domain::task::Status;
use domain::{Task, TaskId};
use serde_json::json;

pub type Deps<'a> = orchestration::Deps<'a>;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub task: TaskId,
    pub step: Step,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Fail { reason: String },
    Cancel { reason: String },
    Retry,
}

#[derive(Debug)]
pub struct Outcome {
    pub before: Status,
    pub task: Task,
}

/// Not idempotent: a retry is rejected with the current status.
///
/// The slot of an active task is free at once. The reconciler releases its sandbox.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let task = visible_task(deps.store, &command.principal, &command.task).await?;
        let (now, weights) = (deps.clock.now(), &deps.orchestration.weights);
        let transition = match &command.step {
            Step::Fail { reason } => task.mark_failed(reason, now).ok_or_else(|| finished(&task))?,
            Step::Cancel { reason } => task.cancel(reason, now).ok_or_else(|| finished(&task))?,
            Step::Retry if deps.orchestration.approval.required && task.ticket.is_none() => {
                return Err(tasks::create::ticket_required("It was not retried."));
            }
            Step::Retry => task.retry(weights, now).ok_or_else(|| not_finished(&task))?,
        };
        let transition = transition.by(&command.principal);
        if let Some(after) = tasks::commit::write(deps, &task, transition).await? {
            return Ok(Outcome { before: task.status, task: after });
        }
        retry.conflict().await?;
    }
}

pub(crate) fn finished(task: &Task) -> Error {
    let (id, status) = (&task.id, task.status.as_str());
    Error::conflict(
        ProblemCode::TaskFinished,
        format!("Task {id} is already finished: it is {status}."),
        json!({"current_status": status}),
    )
}

fn not_finished(task: &Task) -> Error {
    let (id, status) = (&task.id, task.status.as_str());
    let detail = format!("Task {id} is {status}; only a failed or cancelled task can be retried.");
    Error::conflict(ProblemCode::TaskNotFinished, detail, json!({"current_status": status}))
}
