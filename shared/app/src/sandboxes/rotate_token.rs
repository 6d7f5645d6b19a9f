//! Revokes the worker tokens of a sandbox, so that a new one can be issued.

use crate::error::Error;
use crate::visibility::visible_sandbox;
use domain::access::Principal;
use domain::{Sandbox, SandboxId};
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

/// The sandbox with its new token generation.
pub type Outcome = Sandbox;

/// Increments the token generation. Not idempotent: a retry also revokes the token that the first call issued.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox } = command;
    visible_sandbox(deps.store, &principal, &sandbox).await?;
    deps.store.next_generation(&sandbox).await?.ok_or_else(|| Error::no_sandbox(&sandbox))
}
