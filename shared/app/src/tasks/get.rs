//! One task.

use crate::error::Error;
use crate::visibility::visible_task;
use domain::access::Principal;
use domain::{Task, TaskId};
use store::Store;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads the task.
    pub store: &'a Store,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Which one.
    pub task: TaskId,
}

/// The task.
pub type Outcome = Task;

/// Reads it.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    visible_task(deps.store, &command.principal, &command.task).await
}
