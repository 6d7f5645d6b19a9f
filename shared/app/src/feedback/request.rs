//! Grants further rounds of feedback: a person decides that an agent works on what is left.

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::visibility::visible_task;
use crate::{orchestration, reconcile, tasks};
use contract::ProblemCode;
use contract::jobs::Job;
use domain::access::Principal;
use domain::{Task, TaskId};
use serde_json::json;

pub type Deps<'a> = orchestration::Deps<'a>;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub task: TaskId,
}

pub type Outcome = Task;

/// Reads the pull request at once. A repeated request grants no further rounds than the first, unless one has started in
/// between.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let task = visible_task(deps.store, &command.principal, &command.task).await?;
        let Some(transition) = task.feedback_requested(deps.clock.now()) else {
            let detail = format!("Task {} has no open pull request; nothing was changed.", task.id);
            return Err(Error::conflict(ProblemCode::NoPullRequest, detail, json!({})));
        };
        let transition = transition.by(&command.principal);
        if let Some(after) = tasks::commit::write(deps, &task, transition).await? {
            let job = Job::ReadFeedback { task_id: after.id.clone() };
            reconcile::jobs::enqueue(deps.orchestration_jobs, &job).await;
            return Ok(after);
        }
        retry.conflict().await?;
    }
}
