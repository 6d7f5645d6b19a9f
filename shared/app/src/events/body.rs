//! The full data of one event, wherever it is stored.

use crate::error::Error;
use crate::visibility::visible_sandbox;
use domain::access::Principal;
use domain::{Entity, JsonObject, SandboxId};
use store::Store;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads the head, the log and bodies.
    pub store: &'a Store,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Of which sandbox.
    pub sandbox: SandboxId,
    /// Of which event.
    pub seq: u64,
}

/// The data, as it was sent.
pub type Outcome = JsonObject;

/// Reads the data.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox, seq } = command;
    let head = visible_sandbox(deps.store, &principal, &sandbox).await?;
    let missing = || Error::NotFound(format!("Event {seq} of sandbox {sandbox}"));
    if seq == 0 || seq > head.seq {
        return Err(missing());
    }
    let segments = deps.store.segments_to(&Entity::Sandbox(sandbox.clone()), seq, 1).await?;
    let events = segments.first().map(store::segments::Segment::events).transpose()?.unwrap_or_default();
    let event = events.into_iter().find(|event| event.seq == Some(seq)).ok_or_else(missing)?;
    if event.body.is_none() {
        return Ok(event.data);
    }
    match deps.store.body(&sandbox, seq).await? {
        Some(body) => Ok(body),
        None => {
            Err(Error::Internal(format!("event {seq} of {sandbox} refers to a body that is gone").into()))
        }
    }
}
