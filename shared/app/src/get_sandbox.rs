//! One sandbox.

use crate::error::Error;
use crate::sight::visible_head;
use domain::access::Principal;
use domain::{Head, SandboxId};
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
pub type Outcome = Head;

/// Reads it.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    visible_head(deps.store, &command.principal, &command.sandbox).await
}
