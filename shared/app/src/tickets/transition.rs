//! Moves a ticket by hand.

use crate::error::Error;
use crate::{Clock, IdSource, events, race, tickets};
use contract::tickets::Transition;
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
    /// Where to.
    pub transition: Transition,
}

/// The ticket as it is now.
pub type Outcome = Ticket;

/// Moves it. A repeat is refused: it is there already.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, ticket: id, transition } = command;
    let mut race = race::Race::new(deps.clock);
    loop {
        let ticket = tickets::visible(deps.store, &principal, &id).await?;
        let now = deps.clock.now();
        let after = ticket
            .transition(transition.to, transition.force, now)
            .map_err(|refused| tickets::refusal(&ticket, &refused, now))?;
        let data = json!({
            "ticket_id": id, "from_status": ticket.status, "to_status": after.status, "phase_id": after.phase,
            "reason": transition.reason, "forced": transition.force, "by": tickets::name_of(&principal),
        });
        let events = vec![events::emit::event_of(deps.ids, LifecycleEvent::of_ticket("transitioned", &data))];
        let mut commit = Commit::new(now);
        commit.tickets.push(Change { before: Some(&ticket), after, events });
        match deps.store.commit(commit).await? {
            Committed::Done(mut done) => return done.tickets.pop().ok_or_else(tickets::nothing),
            Committed::Conflict => race.lost().await?,
        }
    }
}
