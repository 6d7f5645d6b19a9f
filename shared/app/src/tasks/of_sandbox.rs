//! The task that a sandbox was made for, whichever try it is or was. Its worker may see that one task and no other.

use crate::error::Error;
use crate::visibility::visible_sandbox;
use domain::access::Principal;
use domain::{SandboxId, Task};
use store::Store;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads the head and the task.
    pub store: &'a Store,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Of which sandbox.
    pub sandbox: SandboxId,
}

/// The task.
pub type Outcome = Task;

/// Reads it.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let head = visible_sandbox(deps.store, &command.principal, &command.sandbox).await?;
    let none = || Error::NotFound(format!("A task of sandbox {}", head.id));
    let Some(assignment) = &head.assignment else { return Err(none()) };
    deps.store.task(&assignment.task).await?.ok_or_else(none)
}
