//! Rejects a ticket. It is kept, but never gets a task.

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::{Clock, IdSource, events, tickets};
use contract::payloads::TicketRejected;
use domain::access::Principal;
use domain::event::LifecycleEvent;
use domain::{Ticket, TicketId};
use store::Store;
use store::commit::{Change, Commit, Committed};

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub clock: &'a dyn Clock,
    pub ids: &'a dyn IdSource,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub ticket: TicketId,
    pub reason: String,
}

pub type Outcome = Ticket;

/// Not idempotent: a retry is rejected, because the approval is no longer pending.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, ticket: id, reason } = command;
    let by = tickets::name_of(&principal);
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let ticket = tickets::visible(deps.store, &principal, &id).await?;
        let now = deps.clock.now();
        let after = ticket
            .reject(by.as_deref(), &reason, now)
            .map_err(|refused| tickets::transition_error(&ticket, &refused, now))?;
        let (ticket_id, rejection_reason) = (id.clone(), reason.clone());
        let rejected = TicketRejected { ticket_id, rejected_by: by.clone(), rejection_reason };
        let events = vec![events::emit::event_of(deps.ids, LifecycleEvent::new(&rejected))];
        let mut commit = Commit::new(now);
        commit.tickets.push(Change { before: Some(&ticket), after, events });
        match deps.store.commit(commit).await? {
            Committed::Done(mut done) => return done.tickets.pop().ok_or_else(tickets::not_returned),
            Committed::Conflict => retry.conflict().await?,
        }
    }
}
