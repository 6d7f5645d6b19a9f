//! Returns the full data of one event, which may be stored outside the log.

use crate::error::Error;
use crate::visibility::visible_sandbox;
use domain::access::Principal;
use domain::{Entity, JsonObject, SandboxId};
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    pub seq: u64,
}

pub type Outcome = JsonObject;

pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox: sandbox_id, seq } = command;
    let sandbox = visible_sandbox(deps.store, &principal, &sandbox_id).await?;
    let missing = || Error::NotFound(format!("Event {seq} of sandbox {sandbox_id}"));
    if seq == 0 || seq > sandbox.seq {
        return Err(missing());
    }
    let segments = deps.store.segments_to(&Entity::Sandbox(sandbox_id.clone()), seq, 1).await?;
    let events = segments.first().map(store::segments::Segment::events).transpose()?.unwrap_or_default();
    let event = events.into_iter().find(|event| event.seq == Some(seq)).ok_or_else(missing)?;
    if event.body.is_none() {
        return Ok(event.data);
    }
    match deps.store.body(&sandbox_id, seq).await? {
        Some(body) => Ok(body),
        None => Err(Error::Internal(
            format!("event {seq} of {sandbox_id} refers to a body that does not exist").into(),
        )),
    }
}
