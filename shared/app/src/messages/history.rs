//! Lists the messages of a sandbox with their states.

use crate::error::Error;
use crate::visibility::visible_sandbox;
use contract::messages::{History, MessageRecord};
use domain::SandboxId;
use domain::access::Principal;
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    /// Only messages with a lower number.
    pub before: Option<u64>,
    pub limit: usize,
}

pub type Outcome = History;

/// Newest first. Unlike a pull, this does not change the messages.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let sandbox = visible_sandbox(deps.store, &command.principal, &command.sandbox).await?;
    let before = command.before.unwrap_or(u64::MAX);
    let page = deps.store.messages_before(&command.sandbox, before, command.limit).await?;
    let next_before = page.messages.last().map(|oldest| oldest.number).filter(|_| page.has_more);
    Ok(History {
        sandbox_id: command.sandbox,
        messages: page.messages.into_iter().map(MessageRecord::from).collect(),
        queue_size: sandbox.activity.waiting,
        next_before,
    })
}
