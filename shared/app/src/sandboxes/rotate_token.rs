//! Gives a sandbox a new worker token and refuses the old ones from now on.

use crate::error::Error;
use crate::visibility::visible_sandbox;
use domain::access::Principal;
use domain::{Sandbox, SandboxId};
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
pub type Outcome = Sandbox;

/// Moves the generation on. A repeat moves it again: the token of the first call is then dead.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox } = command;
    visible_sandbox(deps.store, &principal, &sandbox).await?;
    deps.store.next_generation(&sandbox).await?.ok_or_else(|| Error::no_sandbox(&sandbox))
}
