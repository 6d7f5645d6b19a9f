//! What a task waits for, and who waits for it.

use crate::error::Error;
use crate::visibility::visible_task;
use contract::tasks::{BlockedTask, Dependencies};
use domain::TaskId;
use domain::access::Principal;
use store::Store;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads tasks and their edges.
    pub store: &'a Store,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Of which task.
    pub task: TaskId,
}

/// Both.
pub type Outcome = Dependencies;

/// Most of those that wait for it: as many as can be read at once.
const MAX_BLOCKED: usize = 100;

/// Reads them.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let task = visible_task(deps.store, &command.principal, &command.task).await?;
    let waiting = match task.dependents {
        0 => Vec::new(),
        _ => deps.store.dependants(&task.id, MAX_BLOCKED).await?,
    };
    let blocked_tasks = deps.store.tasks(&waiting).await?.iter().map(BlockedTask::new).collect();
    Ok(Dependencies {
        task_id: task.id,
        depends_on: task.depends_on,
        dependencies_complete: task.unmet == 0,
        blocked_tasks,
    })
}
