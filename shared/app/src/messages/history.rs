//! The messages of a sandbox and how far each has come.

use crate::error::Error;
use crate::visibility::visible_sandbox;
use contract::messages::{History, MessageRecord};
use domain::SandboxId;
use domain::access::Principal;
use store::Store;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads the head and the ledger.
    pub store: &'a Store,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Of which sandbox.
    pub sandbox: SandboxId,
    /// Only what was sent before this.
    pub before: Option<u64>,
    /// How many at most.
    pub limit: usize,
}

/// The page.
pub type Outcome = History;

/// Reads a page, newest first. It changes nothing: who looks takes nothing away.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let head = visible_sandbox(deps.store, &command.principal, &command.sandbox).await?;
    let before = command.before.unwrap_or(u64::MAX);
    let page = deps.store.messages_before(&command.sandbox, before, command.limit).await?;
    let next_before = page.messages.last().map(|oldest| oldest.number).filter(|_| page.has_more);
    Ok(History {
        sandbox_id: command.sandbox,
        messages: page.messages.into_iter().map(MessageRecord::from).collect(),
        queue_size: head.activity.waiting,
        next_before,
    })
}
