//! Gives a sandbox a new worker token and refuses the old ones from now on.

use crate::error::Error;
use crate::sight::visible_head;
use domain::access::Principal;
use domain::{Head, SandboxId};
use store::Store;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads and writes the head.
    pub store: &'a Store,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// For which sandbox.
    pub sandbox: SandboxId,
}

/// The sandbox, with the generation that its tokens must have.
pub type Outcome = Head;

/// Moves the generation on. A repeat moves it again: the token of the first call is then dead.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox } = command;
    visible_head(deps.store, &principal, &sandbox).await?;
    deps.store.next_generation(&sandbox).await?.ok_or_else(|| Error::no_sandbox(&sandbox))
}
