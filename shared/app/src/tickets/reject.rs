//! Somebody has looked at a ticket and does not want it done. It is kept, and nobody works on it.

use crate::error::Error;
use crate::{Clock, IdSource, events, race, tickets};
use domain::access::Principal;
use domain::task::transitions::LifecycleEvent;
use domain::{Ticket, TicketId};
use serde_json::json;
use store::Store;
use store::commit::{Change, Commit, Committed};

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads and writes the ticket.
    pub store: &'a Store,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Source of new ids.
    pub ids: &'a dyn IdSource,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Which one.
    pub ticket: TicketId,
    /// Why.
    pub reason: String,
}

/// The ticket as it is now.
pub type Outcome = Ticket;

/// Rejects it. A repeat is refused, because nothing waits for it any more.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, ticket: id, reason } = command;
    let by = tickets::name_of(&principal);
    let mut race = race::Race::new(deps.clock);
    loop {
        let ticket = tickets::visible(deps.store, &principal, &id).await?;
        let now = deps.clock.now();
        let after = ticket
            .reject(by.as_deref(), &reason, now)
            .map_err(|refused| tickets::refusal(&ticket, &refused, now))?;
        let data = json!({"ticket_id": id, "rejected_by": by, "rejection_reason": reason});
        let events = vec![events::emit::event_of(deps.ids, LifecycleEvent::of_ticket("rejected", &data))];
        let mut commit = Commit::new(now);
        commit.tickets.push(Change { before: Some(&ticket), after, events });
        match deps.store.commit(commit).await? {
            Committed::Done(mut done) => return done.tickets.pop().ok_or_else(tickets::nothing),
            Committed::Conflict => race.lost().await?,
        }
    }
}
