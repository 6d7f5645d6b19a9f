//! One sandbox.

use crate::error::Error;
use crate::visibility::visible_sandbox;
use domain::access::Principal;
use domain::{Sandbox, SandboxId};
use store::Store;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads the head.
    pub store: &'a Store,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Which one.
    pub sandbox: SandboxId,
}

/// The sandbox.
pub type Outcome = Sandbox;

/// Reads it.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    visible_sandbox(deps.store, &command.principal, &command.sandbox).await
}
