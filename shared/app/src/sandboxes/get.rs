//! Returns one sandbox.

use crate::error::Error;
use crate::{Clock, visibility};
use domain::access::Principal;
use domain::{Sandbox, SandboxId};
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub clock: &'a dyn Clock,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
}

pub type Outcome = Sandbox;

/// A worker may still read it for a while after its end, because it needs the last epoch to send its final events.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox: id } = command;
    let sandbox = deps.store.sandbox(&id).await?.ok_or_else(|| Error::no_sandbox(&id))?;
    visibility::check_report(&principal, &sandbox, deps.clock.now())?;
    Ok(sandbox)
}
