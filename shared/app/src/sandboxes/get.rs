//! Returns one sandbox.

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

pub type Outcome = Sandbox;

pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    visible_sandbox(deps.store, &command.principal, &command.sandbox).await
}
