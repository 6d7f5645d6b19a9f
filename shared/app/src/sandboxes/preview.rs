//! The link to a port of a sandbox. The provider makes it: a worker could name any page of the web in its events, and a
//! person would see that page in the console.

use crate::error::Error;
use crate::orchestration::Providers;
use crate::visibility::visible_sandbox;
use contract::sandboxes::PreviewLink;
use domain::SandboxId;
use domain::access::Principal;
use providers::Failure;
use std::time::Duration;
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub providers: &'a Providers,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    pub port: u16,
}

pub type Outcome = PreviewLink;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Not found if the sandbox has no provider, has ended, or if its provider has no link.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox: sandbox_id, port } = command;
    let sandbox = visible_sandbox(deps.store, &principal, &sandbox_id).await?;
    let missing = || Error::NotFound(format!("A preview of port {port} of sandbox {sandbox_id}"));
    let Some(assignment) = sandbox.assignment.as_ref().filter(|_| !sandbox.status().is_final()) else {
        return Err(missing());
    };
    let provider = deps.providers.get(&assignment.provider).ok_or_else(|| {
        Error::Unavailable(format!("the provider {} is not configured", assignment.provider).into())
    })?;
    let link = tokio::time::timeout(TIMEOUT, provider.preview(&sandbox_id, port)).await;
    let link = link.unwrap_or_else(|_| {
        Err(Failure::unreachable(format!("the link to {sandbox_id} took longer than {TIMEOUT:?}")))
    });
    let link = link.map_err(|failure| Error::Unavailable(Box::new(failure)))?.ok_or_else(missing)?;
    // The token of a link stays here: a frame cannot send it, and a URL must not contain it.
    Ok(PreviewLink { sandbox_id, port, url: link.url })
}
