//! A page of the log of a task or a ticket.
//!
//! Deliberately absent: filters. These logs are short, and the plane alone writes them.

use crate::error::Error;
use crate::events::scan::{PageOf, page};
use crate::visibility::visible_log;
use contract::events::EventPage;
use domain::Entity;
use domain::access::Principal;
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
    /// Of which task or ticket.
    pub entity: Entity,
    /// Only what comes after this.
    pub after_seq: u64,
    /// Only what comes before this.
    pub before_seq: Option<u64>,
    /// Which end first.
    pub order: Order,
    /// How many at most.
    pub limit: usize,
}

/// The page.
pub type Outcome = EventPage;

/// Reads a page. `next_after_seq` and `next_before_seq` are set whenever there may be more, on an empty page too.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, entity, after_seq, before_seq, order, limit } = command;
    let head = visible_log(deps.store, &principal, &entity).await?;
    let asked = PageOf { after_seq, before_seq, order, limit };
    page(deps.store, &head, asked, Some(head.seq), |_| true).await
}
