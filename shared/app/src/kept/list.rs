//! What is kept of the work of a task.

use super::find;
use crate::Clock;
use crate::error::Error;
use contract::workspaces::TaskWorkspace;
use domain::TaskId;
use domain::access::Principal;
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub clock: &'a dyn Clock,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub task: TaskId,
    /// Default: the latest attempt that has kept any.
    pub attempt: Option<u32>,
}

pub type Outcome = TaskWorkspace;

pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, task, attempt } = command;
    let kept = find(deps.store, &principal, &task, attempt, deps.clock.now()).await?;
    Ok(TaskWorkspace::new(task, kept))
}
