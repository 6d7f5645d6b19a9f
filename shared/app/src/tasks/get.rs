//! Returns one task.

use crate::error::Error;
use crate::visibility::visible_task;
use domain::access::Principal;
use domain::{Task, TaskId};
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

pub type Outcome = Task;

pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    visible_task(deps.store, &command.principal, &command.task).await
}
