//! Somebody has looked at a ticket and wants it done: the work on it begins.

use crate::error::Error;
use crate::orchestration::{Deps as Orchestration, dispatch_job};
use crate::{events, race, reconcile, tickets};
use domain::access::Principal;
use domain::task::transitions::LifecycleEvent;
use domain::{Ticket, TicketId};
use serde_json::json;
use store::commit::{Change, Commit, Committed};

/// What it touches: the ticket and its first task, the queue, and whoever gives out slots.
pub type Deps<'a> = Orchestration<'a>;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Which one.
    pub ticket: TicketId,
}

/// The ticket as it is now.
pub type Outcome = Ticket;

/// Approves of it. Its first task is made in the same transaction, whatever kind of ticket it is: OmoiOS approved of
/// quick tickets and never worked on them. A repeat is refused, because nothing waits for it any more.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, ticket: id } = command;
    let by = tickets::name_of(&principal);
    let mut race = race::Race::new(deps.clock);
    loop {
        let ticket = tickets::visible(deps.store, &principal, &id).await?;
        let now = deps.clock.now();
        let mut after =
            ticket.approve(by.as_deref(), now).map_err(|refused| tickets::refusal(&ticket, &refused, now))?;
        let mut commit = Commit::new(now);
        commit.tasks.push(tickets::begin(deps.ids, &mut after, &deps.orchestration.weights, now));
        let data = json!({"ticket_id": id, "approved_by": by, "task_id": after.first_task});
        let events = vec![events::emit::event_of(deps.ids, LifecycleEvent::of_ticket("approved", &data))];
        commit.tickets.push(Change { before: Some(&ticket), after, events });
        match deps.store.commit(commit).await? {
            Committed::Done(mut done) => {
                reconcile::jobs::ask(deps.work, &dispatch_job(&ticket.org)).await;
                return done.tickets.pop().ok_or_else(tickets::nothing);
            }
            Committed::Conflict => race.lost().await?,
        }
    }
}
