//! Approves a ticket and creates its first task.

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::orchestration::{Deps as Orchestration, dispatch_job};
use crate::{events, reconcile, tickets};
use contract::ProblemCode;
use contract::payloads::TicketApproved;
use domain::access::Principal;
use domain::event::LifecycleEvent;
use domain::{Ticket, TicketId};
use serde_json::json;
use store::commit::{Change, Commit, Committed};

pub type Deps<'a> = Orchestration<'a>;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub ticket: TicketId,
}

pub type Outcome = Ticket;

/// Authors cannot approve their own tickets: approval is a second person's decision. The operator may.
///
/// The first task is created in the same transaction, for all kinds of tickets. (OmoiOS approved quick tickets but
/// never started them.) Not idempotent: a retry is rejected, because the approval is no longer pending.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, ticket: id } = command;
    let by = tickets::name_of(&principal);
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let ticket = tickets::visible(deps.store, &principal, &id).await?;
        if ticket.is_by(&principal) {
            let detail = format!("Ticket {id} is your own; another member or the operator must approve it.");
            return Err(Error::conflict(ProblemCode::OwnTicket, detail, json!({"ticket_id": id})));
        }
        let now = deps.clock.now();
        let mut after = ticket
            .approve(by.as_deref(), now)
            .map_err(|refused| tickets::transition_error(&ticket, &refused, now))?;
        let mut commit = Commit::new(now);
        let weights = &deps.orchestration.weights;
        commit.tasks.push(tickets::create_first_task(&principal, deps.ids, &mut after, weights, now));
        let (ticket_id, task_id) = (id.clone(), after.first_task.clone());
        let approved = TicketApproved { ticket_id, approved_by: by.clone(), task_id };
        let events = vec![events::emit::event_of(deps.ids, LifecycleEvent::new(&approved))];
        commit.tickets.push(Change { before: Some(&ticket), after, events });
        match deps.store.commit(commit).await? {
            Committed::Done(mut done) => {
                reconcile::jobs::enqueue(deps.orchestration_jobs, &dispatch_job(&ticket.org)).await;
                return done.tickets.pop().ok_or_else(tickets::not_returned);
            }
            Committed::Conflict => retry.conflict().await?,
        }
    }
}
