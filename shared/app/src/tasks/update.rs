//! Edits a task that is not finished.

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::visibility::visible_task;
use crate::{orchestration, tasks};
use domain::access::Principal;
use domain::task::edits::{Edit, Edited};
use domain::{Task, TaskId};

pub type Deps<'a> = orchestration::Deps<'a>;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub task: TaskId,
    pub edit: Edit,
}

pub type Outcome = Task;

/// Idempotent.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let task = visible_task(deps.store, &command.principal, &command.task).await?;
        let now = deps.clock.now();
        match task.edited(&command.edit, &deps.orchestration.weights, now) {
            Edited::Unchanged => return Ok(task),
            Edited::Finished => return Err(tasks::transition::finished(&task)),
            Edited::Changed(transition) => {
                let transition = transition.by(&command.principal);
                if let Some(after) = tasks::commit::write(deps, &task, transition).await? {
                    return Ok(after);
                }
                retry.conflict().await?;
            }
        }
    }
}
