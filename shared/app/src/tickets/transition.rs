//! Changes the status of a ticket by hand.

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::{Clock, IdSource, events, tickets};
use contract::payloads::TicketTransitioned;
use contract::tickets::Transition;
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
    pub transition: Transition,
}

pub type Outcome = Ticket;

/// Not idempotent: a retry is rejected, because the ticket already has the status.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, ticket: id, transition } = command;
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let ticket = tickets::visible(deps.store, &principal, &id).await?;
        let now = deps.clock.now();
        let after = ticket
            .transition(transition.to, transition.force, now)
            .map_err(|refused| tickets::transition_error(&ticket, &refused, now))?;
        let event = TicketTransitioned {
            ticket_id: id.clone(),
            from_status: ticket.status,
            to_status: after.status,
            phase_id: after.phase.clone(),
            task_id: None,
            reason: transition.reason.clone(),
            forced: Some(transition.force),
            by: tickets::name_of(&principal),
        };
        let events = vec![events::emit::event_of(deps.ids, LifecycleEvent::new(&event))];
        let mut commit = Commit::new(now);
        commit.tickets.push(Change { before: Some(&ticket), after, events });
        match deps.store.commit(commit).await? {
            Committed::Done(mut done) => return done.tickets.pop().ok_or_else(tickets::not_returned),
            Committed::Conflict => retry.conflict().await?,
        }
    }
}
