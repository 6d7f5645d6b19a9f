//! A page of a sandbox's log.

use crate::error::Error;
use crate::events::scan::{PageOf, page};
use crate::visibility::visible_sandbox;
use contract::events::EventPage;
use domain::access::Principal;
use domain::{SandboxId, Source};
use store::Store;

pub use crate::events::scan::Order;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads the head and the log.
    pub store: &'a Store,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Of which sandbox.
    pub sandbox: SandboxId,
    /// Only what comes after this.
    pub after_seq: u64,
    /// Only what comes before this.
    pub before_seq: Option<u64>,
    /// Which end first.
    pub order: Order,
    /// How many at most.
    pub limit: usize,
    /// Only these types, in any spelling; all, if empty.
    pub event_types: Vec<String>,
    /// Only from this source.
    pub source: Option<Source>,
}

/// The page.
pub type Outcome = EventPage;

/// Reads a page. `next_after_seq` and `next_before_seq` are set whenever there may be more, on an empty page too.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let head = visible_sandbox(deps.store, &command.principal, &command.sandbox).await?;
    let Command { after_seq, before_seq, order, limit, event_types, source, .. } = command;
    let asked = PageOf { after_seq, before_seq, order, limit };
    let total_count = head.activity.counts.matching(&event_types, source);
    page(deps.store, &(&head).into(), asked, total_count, |event| {
        (event_types.is_empty() || event_types.iter().any(|name| event.event_type.is_called(name)))
            && source.is_none_or(|source| source == event.source)
    })
    .await
}
