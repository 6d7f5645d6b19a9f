//! Returns the task that is assigned to a sandbox, whether the attempt is current or not. It is the only task that
//! the sandbox's worker may see.

use crate::error::Error;
use crate::visibility::visible_sandbox;
use domain::access::Principal;
use domain::{SandboxId, Task};
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
}

pub type Outcome = Task;

pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let sandbox = visible_sandbox(deps.store, &command.principal, &command.sandbox).await?;
    let none = || Error::NotFound(format!("A task of sandbox {}", sandbox.id));
    let Some(assignment) = &sandbox.assignment else { return Err(none()) };
    deps.store.task(&assignment.task).await?.ok_or_else(none)
}
