//! Returns a page of a sandbox's log.

use crate::error::Error;
use crate::events::scan::{PageRequest, page};
use crate::visibility::visible_sandbox;
use contract::events::EventPage;
use domain::access::Principal;
use domain::{SandboxId, Source};
use store::Store;

pub use crate::events::scan::Order;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    pub after_seq: u64,
    pub before_seq: Option<u64>,
    pub order: Order,
    pub limit: usize,
    /// In any spelling. Empty for all types.
    pub event_types: Vec<String>,
    pub source: Option<Source>,
}

pub type Outcome = EventPage;

/// `next_after_seq` and `next_before_seq` are set whenever there may be more events, even on an empty page.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let sandbox = visible_sandbox(deps.store, &command.principal, &command.sandbox).await?;
    let Command { after_seq, before_seq, order, limit, event_types, source, .. } = command;
    let request = PageRequest { after_seq, before_seq, order, limit };
    let total_count = sandbox.activity.counts.matching(&event_types, source);
    page(deps.store, &(&sandbox).into(), request, total_count, |event| {
        (event_types.is_empty() || event_types.iter().any(|name| event.event_type.is_called(name)))
            && source.is_none_or(|source| source == event.source)
    })
    .await
}
