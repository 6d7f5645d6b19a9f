//! Revokes the worker tokens of a sandbox, so that a new one can be issued.

use crate::error::Error;
use crate::events::emit::{EventBatch, Written};
use crate::sandboxes::keyed_locks::KeyedLocks;
use crate::sandboxes::write_guard::WriteGuard;
use crate::{Clock, IdSource, visibility};
use contract::payloads::SandboxTokenRotated;
use domain::access::Principal;
use domain::message::Sender;
use domain::{Sandbox, SandboxId, Source};
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub locks: &'a KeyedLocks,
    pub clock: &'a dyn Clock,
    pub ids: &'a dyn IdSource,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
}

/// The sandbox with its new token generation.
pub type Outcome = Sandbox;

/// Increments the token generation; the event that names the caller is part of the same transaction. Not idempotent: a
/// retry also revokes the token that the first call issued.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox: sandbox_id } = command;
    let mut guard = WriteGuard::acquire(deps.store, deps.locks, deps.clock, &sandbox_id).await;
    loop {
        let sandbox = guard.load(&sandbox_id).await?;
        visibility::check(&principal, &sandbox)?;
        let generation = sandbox.generation + 1;
        let mut batch = EventBatch::new(deps.ids);
        batch.event(Source::System, &SandboxTokenRotated { generation, by: Sender::of(&principal) });
        let mut after = batch.sandbox_after(&sandbox);
        after.generation = generation;
        match batch.write(deps.store, &sandbox, &after, deps.clock.now()).await? {
            Written::Stored(sandbox) => {
                guard.cache((*sandbox).clone());
                return Ok(*sandbox);
            }
            Written::Conflict(sandbox) => guard.conflict(sandbox).await?,
            Written::MessageExists(_) => return Err(Error::Internal("no message was sent".into())),
        }
    }
}
