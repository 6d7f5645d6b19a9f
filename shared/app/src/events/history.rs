//! Returns a page of the log of a task or ticket.
//!
//! Deliberately absent: filters. These logs are short, and only the plane writes them.

use crate::error::Error;
use crate::events::scan::{PageRequest, page};
use crate::visibility::visible_log;
use contract::events::EventPage;
use domain::Entity;
use domain::access::Principal;
use store::Store;

pub use crate::events::scan::Order;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    /// A task or ticket.
    pub entity: Entity,
    pub after_seq: u64,
    pub before_seq: Option<u64>,
    pub order: Order,
    pub limit: usize,
}

pub type Outcome = EventPage;

/// `next_after_seq` and `next_before_seq` are set whenever there may be more events, even on an empty page.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, entity, after_seq, before_seq, order, limit } = command;
    let log = visible_log(deps.store, &principal, &entity).await?;
    let request = PageRequest { after_seq, before_seq, order, limit };
    page(deps.store, &log, request, Some(log.seq), |_| true).await
}
