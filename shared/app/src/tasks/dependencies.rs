//! Returns the dependencies and the dependents of a task.

use crate::error::Error;
use crate::visibility::visible_task;
use contract::tasks::{BlockedTask, Dependencies};
use domain::TaskId;
use domain::access::Principal;
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub task: TaskId,
}

pub type Outcome = Dependencies;

/// Maximum number of dependents: as many as one call can read.
const MAX_BLOCKED: usize = 100;

pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let task = visible_task(deps.store, &command.principal, &command.task).await?;
    let dependents = match task.dependents {
        0 => Vec::new(),
        _ => deps.store.dependents(&task.id, MAX_BLOCKED).await?,
    };
    let blocked_tasks = deps.store.tasks(&dependents).await?.iter().map(BlockedTask::new).collect();
    Ok(Dependencies {
        task_id: task.id,
        depends_on: task.depends_on,
        dependencies_complete: task.unmet == 0,
        blocked_tasks,
    })
}
